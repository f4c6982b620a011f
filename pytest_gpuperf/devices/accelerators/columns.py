"""From a column of a data frame to values that can be compared."""

from math import isnan
from typing import Any

import numpy as np

_MISSING_TYPES = ("NAType", "NaTType")  # of pandas.NA, whose comparisons have no truth value, and pandas.NaT


def column(values: Any) -> Any:
    """Return a series of polars or pandas as an array; of text with what is missing, of others as a list.

    What is missing has no text: one side may have None where another has NaN or pandas.NA.
    """
    array = values.to_numpy()
    if array.dtype != object:
        return array
    listed = values.to_list()
    missing = [_is_missing(value) for value in listed]
    if not all(
        is_missing or isinstance(value, str) for value, is_missing in zip(listed, missing, strict=True)
    ):
        return listed
    text = ["" if is_missing else value for value, is_missing in zip(listed, missing, strict=True)]
    return {"missing": np.array(missing), "text": np.array(text)}


def _is_missing(value: Any) -> bool:
    is_nan = isinstance(value, float) and isnan(value)
    return value is None or is_nan or type(value).__name__ in _MISSING_TYPES
