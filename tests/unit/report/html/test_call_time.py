"""Where a call's time goes: parts that add up, and what is not known as one part."""

import pytest
from cases import for_each
from factories import EMULATED, GPU, copies, measurement, record, scaled, skipped
from hypothesis import given
from strategies import records

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Inspection, Transfer
from pytest_gpuperf.model.offload import Diagnosis
from pytest_gpuperf.report.html.calls import parts_sentence as sentence

pytestmark = pytest.mark.unit


def called(busy=1.5e-3, *, gpu=GPU, **changes):
    """Return the record of a call of 2 ms, with 4 ms of uploads before it and 1 ms of downloads after it."""
    on_gpu = measurement(gpu, 2e-3, inspection=Inspection(host_time=1e-3, device_time=busy))
    moved = Transfer(h2d=copies(4e-3), d2h=copies(1e-3))
    return record(**{"gpu": on_gpu, "transfer": moved, "scope": "call", **changes})


@for_each(
    ("found", "said"),
    [
        (
            called(),
            "A call with its copies on the GPU takes 7.00 ms: upload 4.00 ms (57 %), device busy 1.50",
        ),
        (called(), "busy 1.50 ms (21 %), launch and idle 500 us (7 %), download 1.00 ms (14 %)."),
        # A device is busy for no longer than a call takes.
        (called(busy=3e-3), "upload 4.00 ms (57 %), device busy 2.00 ms (29 %), download"),
        (called(busy=None), "call 2.00 ms (29 %), download 1.00 ms (14 %)."),
        (called(diagnosis=(Diagnosis(code="side_stream", sentence="-"),)), "call 2.00 ms (29 %)"),
        (
            called(demand=Demand(transfer="once", calls=10)),
            "with its share of the copies on the GPU takes 2.50 ms: upload 400 us (16 %)",
        ),
        (called(transfer=None), "A call on the GPU takes 2.00 ms: device busy 1.50 ms (75 %)"),
        (called(gpu=EMULATED), "A call with its copies on an emulated device takes"),
    ],
)
def test_a_call_is_copies_work_of_the_device_and_the_rest(found, said):
    assert said in sentence(found)


@for_each(
    "found",
    [
        *(skipped("a"), record(gpu=None), record(gpu=measurement(GPU, 0)), scaled(4, 0.5)),
        *(called(scope="body"), called(busy=None, transfer=None)),
    ],
)
def test_without_two_parts_there_is_no_sentence(found):
    assert sentence(found) is None


@given(records())
def test_any_record_has_a_sentence_or_none(found):
    assert "nan" not in (sentence(found) or "")
