"""What the tests of the export formats share."""

import json

import pytest
from factories import (
    CPU,
    GPU,
    comparison,
    copies,
    estimate,
    measurement,
    offload,
    record,
    run_of,
    scaled,
    skipped,
    speedup,
)
from msgspec.structs import replace

from pytest_gpuperf.model.comparison import METRICS, Commit
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Memory, Transfer
from pytest_gpuperf.model.offload import BreakEven
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report import exports

EMULATED = replace(GPU, name="a CPU", emulated=True)


@pytest.fixture(scope="module")
def everything() -> Run:
    """Return a run with each kind of record that a format treats in a way of its own."""
    two = estimate(2.0, 1.5, 3.0)
    slower = comparison(reason="slower", baseline=two, found=two, ratio=estimate(0.75, 0.5, 1.25))
    full = record(
        "test_a.py::test_full",
        status="failed",
        reason="too slow",
        demand=Demand(min=3, max=9, max_memory=8192),
        transfer=Transfer(h2d=copies(0.001), d2h=copies(0.001)),
        memory=Memory(peak=4096),
        offload=offload(
            always=speedup(2.0, 1.5, 3.0),
            once=speedup(4.0, 3.5, 5.0),
            latency=speedup(6.0, 5.5, 7.0),
            break_even_calls=BreakEven(transfer=None, first_call=None, both=two, reason=None),
        ),
        comparisons=tuple(replace(slower, metric=metric) for metric in METRICS),
    )
    return run_of(
        full,
        record("test_a.py::test_open", speedup=speedup(high=None)),
        record("test_a.py::test_or[a|b]", gpu=measurement(EMULATED, 0.001)),
        skipped("test_a.py::test_skipped", "no GPU"),
        skipped("test_a.py::test_on_the_cpu", "no GPU", cpu=measurement(CPU, 0.02)),
        scaled(1),
        replace(scaled(4, 0.5, required=0.4), demand=Demand(min=2, max=3)),
        commit=Commit(id="abc", branch="main", time="2026-11-21T10:54:31+00:00", changed=True),
    )


@pytest.fixture(scope="module")
def written():
    """Return the text of records in a format of ours."""

    def call(format: str, *records: Record, **changes) -> str:
        return exports.formats()[format].write(run_of(*records, **changes))

    return call


@pytest.fixture(scope="module")
def loaded(written):
    """Return what a reader of JSON makes of the file of a format."""
    return lambda *arguments, **changes: json.loads(written(*arguments, **changes))
