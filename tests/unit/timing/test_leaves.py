"""Leaves: what a result is made of, and its copy on the host."""

import sys

import numpy as np
from factories import Answer, on_host

from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.timing.kept_results import remember
from pytest_gpuperf.timing.leaves import leaves


def test_leaves_are_named_by_where_they_stand():
    result = {"x": [1, (2, 3)], 5: Answer(4, {"y": 5}), "nothing": None}
    expected = {
        "result['x'][0]": 1,
        "result['x'][1][0]": 2,
        "result['x'][1][1]": 3,
        "result[5].total": 4,
        "result[5].parts['y']": 5,
    }
    assert expected == {leaf.path: leaf.value for leaf in leaves(result)}


def test_a_snapshot_is_a_copy_on_the_host():
    array = np.zeros(3)
    (leaf,) = on_host(array)
    array += 1
    assert leaf.value.tolist() == [0, 0, 0]


def test_arrays_without_a_mask_leave_masked_arrays_unimported(monkeypatch):
    monkeypatch.delitem(sys.modules, "numpy.ma", raising=False)
    monkeypatch.delattr(np, "ma", raising=False)
    on_host([np.ones(3), 1.0])
    assert remember(np.ones(3), HostDevice("a processor"))
    assert "numpy.ma" not in sys.modules


def test_a_snapshot_of_a_masked_array_is_a_copy():
    masked = np.ma.masked_array([(1.0, 2)], mask=[(True, False)], dtype=[("x", "f8"), ("n", "i4")])
    found = on_host(masked)
    assert [("result['x']", [0.0]), ("result['x'].mask", [True]), ("result['n']", [2])] == [
        (leaf.path, leaf.value.tolist()) for leaf in found
    ]
    assert masked["x"].data.tolist() == [1.0]
