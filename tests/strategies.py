"""What hypothesis makes up: texts that some reader takes for more than text, and values with any numbers."""

from array import array
from typing import get_args

import factories
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.measurement import Copies, Estimate, Inspection, Transfer
from pytest_gpuperf.model.offload import BreakEven, Offload, Point, Regime, Threshold
from pytest_gpuperf.model.roof import DeviceRoof, Roof
from pytest_gpuperf.model.scaling import MODES, ScalingCurve, ScalingPoint

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")

HARD = st.sampled_from((*FORMULAS, *",;\"'[]:|`<>&@#*_()!~$ \x1b\ud800\ud801\\x\u202e"))

HOSTILE = st.lists(HARD | st.characters(), max_size=60).map("".join)


def shown(text: str) -> str:
    """Return a text as every output shows it: one line, in which what steers a terminal is written out."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


TIMES = (
    st.floats(1e-9, 1e3) | st.floats(0, allow_infinity=False) | st.sampled_from([-1.0, 0.0, 5e-324, 1.7e308])
)
SAMPLES = st.lists(TIMES, max_size=8).map(lambda times: array("d", times))
ESTIMATES = st.builds(Estimate, value=TIMES, low=st.none() | TIMES, high=st.none() | TIMES)
COPIES = st.none() | st.builds(Copies, bytes=st.sampled_from([0, 8]), arrays=st.just(1), samples=SAMPLES)


@st.composite
def records(draw):
    """Return records in which any number is missing, far too large, or zero."""

    def measurement(device):
        inspection = st.none() | st.builds(Inspection, host_time=TIMES, device_time=st.none() | TIMES)
        return replace(
            factories.measurement(device),
            samples=draw(SAMPLES),
            latencies=draw(SAMPLES),
            first_call=draw(TIMES),
            inspection=draw(inspection),
        )

    maybe = st.none() | ESTIMATES
    even = BreakEven(transfer=None, first_call=draw(maybe), both=draw(maybe), reason=None)
    offload = Offload(
        worth=None,
        faster=None,
        reason="-",
        regime="never",
        by_latency=False,
        break_even_calls=draw(st.sampled_from([None, even, even])),
    )
    transfer = st.builds(Transfer, h2d=COPIES, d2h=COPIES, loop=SAMPLES)
    demands = [Demand(), Demand(latency=True), Demand(transfer="once", calls=3)]
    return factories.record(
        demand=draw(st.sampled_from(demands)),
        cpu=draw(st.sampled_from([None, measurement(factories.CPU)])),
        gpu=draw(st.sampled_from([None, measurement(factories.GPU)])),
        transfer=draw(st.none() | transfer),
        offload=draw(st.sampled_from([None, offload, offload])),
        scope=draw(st.sampled_from([None, "body", "call"])),
    )


@st.composite
def thresholds(draw):
    """Return thresholds of any sizes and times, with what does not fit together."""
    maybe = st.none() | TIMES
    ratios = st.none() | ESTIMATES
    points = st.builds(
        Point,
        size=TIMES | st.integers(-5, 5000).map(float),
        nodeid=st.just("a"),
        cpu=maybe,
        gpu=maybe,
        speedup=ratios,
        never=ratios,
        once=ratios,
        always=ratios,
    )
    return Threshold(
        name="a",
        parameter=draw(st.sampled_from(["n", "a_long_name_of_a_parameter_of_a_test"])),
        at_most=draw(maybe),
        at_least=draw(maybe),
        regime=draw(st.sampled_from(get_args(Regime))),
        by_latency=draw(st.booleans()),
        status="recorded",
        reason=None,
        outcome=draw(st.sampled_from(["bracket", "none", "not_monotone", None])),
        largest_not_won=draw(maybe),
        smallest_won=draw(maybe),
        curve=tuple(sorted(draw(st.lists(points, max_size=5)), key=lambda point: point.size)),
    )


@st.composite
def scalings(draw):
    """Return curves of any efficiencies, on any numbers of devices."""
    maybe = st.none() | ESTIMATES
    points = st.builds(
        ScalingPoint,
        count=st.integers(1, 2**63 - 1) | st.integers(1, 9),
        nodeid=st.just("a"),
        time=st.none() | TIMES,
        speedup=maybe,
        efficiency=maybe,
        karp_flatt=maybe,
    )
    found = tuple(sorted(draw(st.lists(points, max_size=5)), key=lambda point: point.count))
    return ScalingCurve(
        name="a",
        mode=draw(st.sampled_from(MODES)),
        required=draw(st.none() | st.floats(1e-9, 1.0)),
        counts=tuple(point.count for point in found) or (1,),
        points=found,
    )


@st.composite
def roofs(draw):
    """Return roofs of any bytes, times and shares, on both devices, on one or on none."""
    sides = st.builds(
        DeviceRoof,
        bytes=st.integers(0, 5000) | st.integers(0, 10**40) | st.just(10**400),
        bandwidth=st.none(),
        copy_time=st.none() | TIMES,
        share=st.none() | ESTIMATES,
    )
    return Roof(source="arrays", cpu=draw(st.none() | sides), gpu=draw(st.none() | sides))
