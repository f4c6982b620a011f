"""Where a call's time goes: parts that add up, and what is not known as one part."""

from array import array

import pytest
from cases import for_each
from factories import GPU, copies, measurement, record, scaled, skipped
from hypothesis import given
from msgspec.structs import replace
from strategies import records

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Inspection, Transfer
from pytest_gpuperf.model.offload import Diagnosis
from pytest_gpuperf.report.html.call_time import parts, sentence

pytestmark = pytest.mark.unit

MOVED = Transfer(h2d=copies(4e-3), d2h=copies(1e-3))


def called(busy=1.5e-3, *, gpu=GPU, **changes):
    """Return the record of a call of 2 ms, with 4 ms of uploads before it and 1 ms of downloads after it."""
    on_gpu = measurement(gpu, 2e-3, inspection=Inspection(host_time=1e-3, device_time=busy))
    return record(**{"gpu": on_gpu, "transfer": MOVED, "scope": "call", **changes})


@for_each(
    ("found", "said"),
    [
        (
            called(),
            "takes 7.00 ms: upload 4.00 ms (57 %), device busy 1.50 ms (21 %), launch and idle 500 us (7 %)",
        ),
        (called(), "download 1.00 ms (14 %). The speedup leaves the copies out."),
        # A device is busy for no longer than a call takes.
        (called(busy=3e-3), "upload 4.00 ms (57 %), device busy 2.00 ms (29 %), download"),
        (called(busy=None), "call 2.00 ms (29 %), download 1.00 ms (14 %). The device does not say how long"),
        (called(scope="body"), "The body of the test is timed as a whole"),
        (called(diagnosis=(Diagnosis(code="side_stream", sentence="-"),)), "on other streams"),
        (called(transfer=Transfer(h2d=None, d2h=None), scope="body"), "A call on the GPU takes 2.00 ms."),
        (called(demand=Demand(transfer="once", calls=10)), "upload 400 us (16 %)"),
        (called(demand=Demand(transfer="once", calls=10)), "The copies are shared by 10 calls."),
        (called(transfer=Transfer(h2d=copies(), d2h=copies())), "The copies were not timed."),
        (
            called(transfer=replace(MOVED, loop=array("d", [5e-3]))),
            "takes 5.00 ms: it waits for the device once",
        ),
        (
            called(transfer=replace(MOVED, loop=array("d", [9e-3]))),
            "takes 9.00 ms: it waits for the copies of",
        ),
        (called(gpu=replace(GPU, emulated=True)), "A call with its copies on an emulated device takes"),
    ],
)
def test_a_call_is_copies_work_of_the_device_and_the_rest(found, said):
    assert said in sentence(found)


def test_a_call_of_which_nothing_else_is_known_is_said_without_an_excuse():
    assert "A call on the GPU takes 2.00 ms." == sentence(called(busy=None, transfer=None))


@for_each("found", [skipped("a"), record(gpu=None), record(gpu=measurement(GPU, 0)), scaled(4, 0.5)])
def test_without_a_timed_call_there_is_no_sentence(found):
    assert sentence(found) is None


@given(records())
def test_any_record_has_parts_that_took_time(found):
    assert all(part > 0 for part in parts(found).values())
    assert (sentence(found) is None) is (not parts(found))
