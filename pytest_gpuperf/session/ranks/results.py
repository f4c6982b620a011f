"""The results of several ranks as one: how their values come to rank 0, and which of them make up a whole."""

from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import Any

import numpy as np

from pytest_gpuperf.devices.group import StackedParts
from pytest_gpuperf.work.values import Leaf


def packed(values: Iterable[Leaf]) -> tuple[list[str], bytes]:
    """Return the places of a result's values on the host, and all of these arrays as bytes."""
    sent, data = [leaf for leaf in values if _is_part(leaf)], BytesIO()
    for leaf in sent:
        np.save(data, leaf.value, allow_pickle=False)
    return [leaf.path for leaf in sent], data.getvalue()


def unpacked(places: Sequence[str], data: bytes) -> dict[str, Any]:
    """Return arrays that another rank has packed, by their places."""
    stream = BytesIO(data)
    return {place: np.load(stream, allow_pickle=False) for place in places}


def gathered(values: Iterable[Leaf], others: Sequence[dict[str, Any]] = ()) -> list[Leaf]:
    """Return the values of rank 0 with those that the other ranks have at the same places, as parts of one.

    If a rank lacks a value at that place, or has one of another shape, only rank 0's value is kept.
    """
    return [_with_parts(leaf, others) if _is_part(leaf) else leaf for leaf in values]


def _with_parts(leaf: Leaf, others: Sequence[dict[str, Any]]) -> Leaf:
    parts = [leaf.value, *(other[leaf.path] for other in others if leaf.path in other)]
    if len(parts) <= len(others) or any(part.shape != leaf.value.shape for part in parts):
        parts = parts[:1]
    return leaf._replace(value=np.stack(parts).view(StackedParts), cells=None)


def _is_part(leaf: Leaf) -> bool:
    """Return whether a value may be a part of one: no label, and of a dtype of NumPy's own."""
    return isinstance(leaf.value, np.ndarray) and leaf.value.dtype.kind in "biufcmM" and not leaf.is_label
