"""Leaves: what a result is made of, and its copy on the host."""

import sys
from collections import UserDict, defaultdict
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np
from factories import Answer, on_host

from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice
from pytest_gpuperf.timing.kept_results import remember
from pytest_gpuperf.timing.leaves import Leaf, incomparable, is_lazy, leaves, stored_values, values_of


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
    assert np.ma.masked is not None  # NumPy imports it when it is asked for, as `delattr` does
    monkeypatch.delitem(sys.modules, "numpy.ma")
    monkeypatch.delattr(np, "ma")
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


class Output:
    """A result as a module of torch returns it: arrays, and what is not the same on both devices."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("logits", "unset")


class Stored(Mapping):
    """Reads what it stores."""

    def __init__(self, **values):
        self.units = dict.fromkeys(range(len(values)), "s")
        self.values_ = values

    def __getitem__(self, key):
        return self.values_[key]

    def __iter__(self):
        return iter(self.values_)

    def __len__(self):
        return len(self.values_)


class Caching(Stored):
    """Computes what is read and keeps it, where it stored how to compute it."""

    def __getitem__(self, key):
        if callable(self.values_[key]):
            self.values_[key] = self.values_[key]()
        return self.values_[key]


def paths(result):
    return [leaf.path for leaf in values_of(result)]


def test_the_arrays_in_an_object_are_its_values():
    inner = Output(weights={"w": np.ones(2)}, device="cuda:0")
    output = Output(logits=np.ones(3), loss=0.5, inner=inner, hooks=[print], kind=Output, numpy=np)
    output.itself = output
    assert paths({"out": output, "again": output}) == [
        "result['out'].logits",
        "result['out'].loss",
        "result['out'].inner.weights['w']",
    ]
    slotted = Slotted()
    slotted.logits = np.ones(2)
    assert paths(slotted) == ["result.logits"]
    assert paths(Output(w=np.ones(1), _place=0, place=1)) == ["result.w", "result.place"]


def test_an_object_without_arrays_and_one_that_converts_itself_are_one_value():
    class Convertible(Output):
        def __array__(self):
            return self.data

    assert paths([Output(loss=0.5), Convertible(data=np.ones(3)), {1}, print]) == [
        f"result[{index}]" for index in range(4)
    ]


def test_a_mapping_that_gives_what_it_stores_is_read():
    assert paths(Stored(a=np.ones(2), b=1.0)) == ["result['a']", "result['b']"]


def test_a_mapping_that_keeps_what_it_computes_is_lazy_however_often_it_is_read():
    caching = Caching(a=lambda: np.ones(2))
    for _ in range(3):
        assert paths(caching) == ["result"]
        assert is_lazy(caching)


def test_objects_of_the_plugin_and_of_code_are_not_searched():
    found = Leaf("result", SimulatedDevice("cpu", clock=Clock()))
    assert not stored_values(found, set())


class Pair(NamedTuple):
    first: Any
    second: Any


def test_arrays_in_containers_of_any_kind_are_values_of_an_object():
    many = defaultdict(list)
    many["k"].append(np.ones(2))
    output = Output(pair=Pair(np.ones(1), 2), many=many, data=UserDict(a=np.ones(3)))
    assert sorted(paths(output)) == [
        "result.data['a']",
        "result.many['k'][0]",
        "result.pair[0]",
        "result.pair[1]",
    ]


def test_what_may_hide_work_is_a_value_of_its_own():
    future = Future()
    output = Output(w=np.ones(2), later=(x for x in "a"), lazy=Caching(a=len), future=future, text="cuda:0")
    assert paths(output) == ["result.w", "result.later", "result.lazy", "result.future"]


def test_what_is_too_much_to_be_searched_is_a_value_that_cannot_be_compared(monkeypatch):
    monkeypatch.setattr("pytest_gpuperf.timing.leaves._MOST_SEARCHED", 5)
    output = Output(w=np.ones(2), many=[Output(i=np.ones(1)) for _ in range(9)])
    assert "result.many[3]" in paths(output)
    (*_, last) = incomparable(on_host(output))
    assert type(last.value) is Output


def test_a_long_chain_of_objects_is_searched_to_its_end():
    head = None
    for _ in range(3000):
        head = Output(next=head, w=np.ones(1) if head is None else None)
    assert len(paths(head)) == 1


def test_objects_that_many_parts_share_are_searched_once():
    big = Output(parts=[Output(i=np.ones(1)) for _ in range(900)])
    assert len(paths([Output(big=big, w=np.ones(1)) for _ in range(100)])) == 1000


def test_texts_and_objects_that_come_again_are_values_or_were():
    text, shared = "text", Output(w=np.ones(1))
    again = "".join(["te", "xt"])
    assert paths([text, text, again]) == ["result[0]", "result[1]", "result[2]"]
    assert paths([Output(inner=shared), shared, Output(inner=shared, v=np.ones(1))]) == [
        "result[0].inner.w",
        "result[2].v",
    ]


def test_a_file_that_an_object_holds_is_no_value(tmp_path):
    with (tmp_path / "log").open("w") as log:
        assert paths(Output(w=np.ones(1), log=log)) == ["result.w"]


class Rude(Output):
    """Runs code when it is asked for what it does not have."""

    @property
    def dtype(self):
        raise KeyError("dtype")

    def __getattr__(self, name):
        raise KeyError(name)


def test_no_code_of_an_object_runs_while_it_is_searched():
    assert paths([Rude(w=1), Output(w=np.ones(1), dtype="float32")]) == ["result[0]", "result[1].w"]
