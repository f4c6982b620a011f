"""Where a call's time goes: parts that add up, what is not known as one part, and shapes beside colours."""

import dataclasses
from array import array
from itertools import pairwise

import pytest
from cases import for_each
from factories import CPU, GPU, copies, measurement, record, scaled, skipped
from figures import is_whole, numbers
from hypothesis import given
from msgspec.structs import replace
from strategies import records

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Inspection, Transfer
from pytest_gpuperf.model.offload import Diagnosis
from pytest_gpuperf.report.html.call_time import figure, parts, sentence

pytestmark = pytest.mark.unit

UP, DOWN = copies(4e-3), copies(1e-3)
MOVED = Transfer(h2d=UP, d2h=DOWN)


def called(busy=1.5e-3, *, transfer=MOVED, gpu=GPU, **changes):
    """Return the record of a call of 2 ms, with 4 ms of uploads before it and 1 ms of downloads after it."""
    inspection = Inspection(host_time=1e-3, device_time=busy)
    on_gpu = measurement(gpu, 2e-3, inspection=inspection)
    return record(**{"gpu": on_gpu, "transfer": transfer, "scope": "call", **changes})


def times(found):
    return {part.name: pytest.approx(part.seconds) for part in parts(found)}


def test_a_call_is_copies_work_of_the_device_and_the_rest():
    expected = {"upload": 4e-3, "device busy": 1.5e-3, "launch and idle": 0.5e-3, "download": 1e-3}
    assert expected == times(called())
    assert (
        "A call with its copies on the GPU takes 7.00 ms: upload 4.00 ms (57 %), "
        "device busy 1.50 ms (21 %), launch and idle 500 us (7 %), download 1.00 ms (14 %)"
    ) in sentence(called())


def test_a_call_on_several_devices_has_no_parts():
    assert [None, None] == [figure(scaled(4, 0.5)), sentence(scaled(4, 0.5))]


def test_a_bar_is_as_wide_as_its_part_takes_long():
    widths = [numbers(mark.path)[2] for mark in figure(called()).marks]
    assert [pytest.approx(90 * each / 7, abs=0.1) for each in (4, 1.5, 0.5, 1)] == widths


def test_no_two_neighbours_have_the_same_height_so_that_colours_are_not_needed():
    heights = [numbers(mark.path)[3] for mark in figure(called()).marks]
    assert all(one != other for one, other in pairwise(heights))


def test_a_device_is_busy_for_no_longer_than_a_call_takes():
    assert {"upload": 4e-3, "device busy": 2e-3, "download": 1e-3} == times(called(busy=3e-3))


@for_each(
    ("changes", "said"),
    [
        ({"busy": None}, "does not say how long"),
        ({"scope": "body"}, "timed as a whole"),
        ({"diagnosis": (Diagnosis(code="side_stream", sentence="-", numbers={}),)}, "other streams"),
    ],
)
def test_a_call_whose_work_is_not_all_known_is_one_part(changes, said):
    found = called(**changes)
    assert 2e-3 == times(found)["call"]
    assert not {"device busy", "launch and idle"} & times(found).keys()
    assert said in sentence(found)


def test_a_body_is_timed_with_its_own_copies():
    found = called(transfer=Transfer(h2d=None, d2h=None), scope="body")
    assert {"call": 2e-3} == times(found)
    assert "A call on the GPU takes 2.00 ms." in sentence(found)


def test_shared_copies_count_by_their_share():
    found = called(demand=Demand(transfer="once", calls=10))
    assert (4e-4, 1e-4) == (times(found)["upload"], times(found)["download"])
    assert "shared by 10 calls" in sentence(found)


def test_copies_that_were_not_timed_are_no_part():
    found = called(transfer=Transfer(h2d=copies(), d2h=copies()))
    assert {"device busy", "launch and idle"} == times(found).keys()
    assert "not timed" in sentence(found)


def test_copies_that_took_no_time_by_a_file_that_lies_are_no_part():
    back = replace(DOWN, samples=array("d", [-1.0]))
    assert "download" not in times(called(transfer=Transfer(h2d=UP, d2h=back)))


def test_a_device_that_says_it_was_busy_for_less_than_no_time_was_idle():
    """The call is so short that its time is lost in a sum with that of the device."""
    inspection = Inspection(host_time=1e-3, device_time=-1.0)
    found = record(gpu=measurement(GPU, 5e-324, inspection=inspection))
    assert ["launch and idle"] == [part.name for part in parts(found)]
    assert is_whole(dataclasses.replace(figure(found), finding="-"))


def test_a_loop_that_takes_another_time_than_the_sum_is_told():
    faster = sentence(called(transfer=replace(MOVED, loop=array("d", [5e-3]))))
    assert faster.endswith(
        "takes 5.00 ms: it waits for the device once, and the parts above each on their own."
    )
    slower = sentence(called(transfer=replace(MOVED, loop=array("d", [9e-3]))))
    assert "takes 9.00 ms: it waits for the copies of the call before" in slower
    assert "loop" not in sentence(called(transfer=replace(MOVED, loop=array("d", [7.1e-3]))))


def test_single_calls_count_where_they_are_required():
    gpu = measurement(GPU, 2e-3, latencies=array("d", [3e-3]))
    assert 3e-3 == times(record(gpu=gpu, demand=Demand(latency=True)))["call"]


def test_an_emulated_device_is_not_called_a_gpu():
    assert "GPU" not in sentence(called(gpu=replace(GPU, emulated=True)))


@for_each(
    "found",
    [
        skipped("a"),
        record(gpu=None),
        record(gpu=measurement(GPU)),
        record(gpu=measurement(GPU, 0)),
        record(gpu=measurement(GPU, -1.0), transfer=MOVED),
    ],
)
def test_without_a_timed_call_there_is_no_figure(found):
    assert ((), None, None) == (parts(found), figure(found), sentence(found))


@given(records())
def test_any_record_has_a_figure_that_can_be_drawn(found):
    assert (figure(found) is None) is (sentence(found) is None)
    assert figure(found) is None or is_whole(dataclasses.replace(figure(found), finding="-"))


def test_there_is_a_figure_of_the_gpu_alone():
    assert figure(record(cpu=None, gpu=measurement(GPU, 1.0)))
    assert figure(record(gpu=None, cpu=measurement(CPU, 1.0))) is None
