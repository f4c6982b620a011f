"""What the tests of the export formats share."""

import json
from dataclasses import replace

import pytest
from factories import GPU, comparison, copies, estimate, measurement, offload, record, run_of, speedup

from pytest_gpuperf.model.comparison import METRICS
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Memory, Transfer
from pytest_gpuperf.model.offload import BreakEven
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.model.scaling import Scaling
from pytest_gpuperf.report import exports


@pytest.fixture(scope="module")
def full() -> Record:
    """Return a record in which nothing is missing."""
    two = estimate(2.0, 1.5, 3.0)
    slower = comparison(reason="slower", baseline=two, found=two, ratio=estimate(0.75, 0.5, 1.25))
    return record(
        status="failed",
        reason="too slow",
        demand=Demand(min=3, max=9, max_memory=8192),
        transfer=Transfer(h2d=copies(0.001), d2h=copies(0.001)),
        memory=Memory(peak=4096),
        scaling=Scaling(
            name="test_fft",
            mode="strong",
            count=4,
            counts=(1, 4),
            required=0.8,
            base=measurement(GPU, 0.006),
            speedup=speedup(3.4, 3.2, 3.6),
            efficiency=estimate(0.85, 0.8, 0.9),
            karp_flatt=estimate(0.06, 0.04, 0.08),
        ),
        offload=offload(
            worth=False,
            reason="it does not pay",
            always=speedup(2.0, 1.5, 3.0),
            once=speedup(4.0, 3.5, 5.0),
            latency=speedup(6.0, 5.5, 7.0),
            break_even_calls=BreakEven(transfer=None, first_call=None, both=two, reason=None),
        ),
        comparisons=tuple(replace(slower, metric=metric) for metric in METRICS),
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
