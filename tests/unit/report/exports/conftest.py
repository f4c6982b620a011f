"""What the tests of the export formats share."""

import json
from array import array

import pytest
from factories import GPU, measurement, record, run_of, speedup

from pytest_gpuperf.model.comparison import METRICS, Comparison
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Copies, Estimate, Memory, Transfer
from pytest_gpuperf.model.offload import BreakEven, Offload, Price
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.model.scaling import Scaling
from pytest_gpuperf.report import exports


@pytest.fixture(scope="module")
def full() -> Record:
    """Return a record in which nothing is missing."""
    estimate = Estimate(value=2.0, low=1.5, high=3.0)
    copies = Copies(bytes=8, arrays=1, samples=array("d", [0.001]))
    return record(
        status="failed",
        reason="too slow",
        demand=Demand(min=3, max=9),
        transfer=Transfer(h2d=copies, d2h=copies),
        memory=Memory(peak=4096),
        scaling=Scaling(
            name="test_fft",
            mode="strong",
            count=4,
            counts=(1, 4),
            required=0.8,
            base=measurement(GPU, 0.006),
            speedup=speedup(3.4, 3.2, 3.6),
            efficiency=Estimate(value=0.85, low=0.8, high=0.9),
            karp_flatt=Estimate(value=0.06, low=0.04, high=0.08),
        ),
        offload=Offload(
            worth=False,
            reason="it does not pay",
            regime="never",
            by_latency=False,
            price=Price(ratio=2.5, needed=2.5, saves=True, saving_percent=None),
            always=speedup(2.0, 1.5, 3.0),
            once=speedup(4.0, 3.5, 5.0),
            latency=speedup(6.0, 5.5, 7.0),
            break_even_calls=BreakEven(transfer=None, first_call=None, both=estimate, reason=None),
        ),
        comparisons=tuple(
            Comparison(
                metric=metric,
                tolerance=0.1,
                outcome="regressed",
                reason="slower",
                baseline=estimate,
                found=estimate,
                ratio=Estimate(value=0.75, low=0.5, high=1.25),
            )
            for metric in METRICS
        ),
    )


@pytest.fixture(scope="module")
def loaded():
    """Return what a reader of JSON makes of the file of a format."""

    def call(format: str, *records: Record):
        return json.loads(exports.text(format, run_of(*records)))

    return call
