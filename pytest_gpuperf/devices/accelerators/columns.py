"""From a column of a data frame to values that can be compared."""

from typing import Any

import numpy as np


def column(values: Any) -> Any:
    """Return a series of polars or pandas as an array; of text with what is missing, of others as a list."""
    array = values.to_numpy()
    if array.dtype != object:
        return array
    listed = values.to_list()
    if not all(value is None or isinstance(value, str) for value in listed):
        return listed
    missing = np.array([value is None for value in listed])
    return {"missing": missing, "text": np.array([*map(str, listed)])}
