"""Capabilities: what some devices can tell or do; None, or nothing, where one cannot."""

import unittest
from collections import UserList
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from bare import bare
from cases import for_each

from pytest_gpuperf.devices import capabilities, containers, doubts
from pytest_gpuperf.devices.containers import found_in
from pytest_gpuperf.devices.environment import Quota
from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.protocol import Activity, TimedDevice
from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice
from pytest_gpuperf.model.errors import Fault
from pytest_gpuperf.model.record import Clocks

COOL = Clocks(sm_mhz=1980, memory_mhz=3201, celsius=41, watts=123.0, throttle=())
HOST = np.ones(3)
# By their names: what they take, what a device may return, and what is made of none.
ABILITIES = {
    "occupy": ((0.5,), True, False),
    "occupied": ((), 0.4, None),
    "clocks": ((), COOL, None),
    "throttle": ((), ("power cap",), ()),
    "free_memory": ((), 1000, None),
    "holds_work": (("a graph",), True, False),
    "reuses_results": ((print,), True, False),
    "is_immutable": ((HOST,), True, False),
    "is_constant": ((print,), False, None),
    "runs_products": ((print,), False, None),
    "activity": ((print, 0), Activity(computed=1), None),
    "compilations": ((), 3, 0),
    "host_memory": ((HOST,), "pinned", None),
    "processor_time": ((), 2.5, None),
    "quota": ((), Quota(2.0, Path()), None),
    "sm_mhz": ((), 1980, None),
    "other_processes": ((), 2, None),
    "unfinished": ((), [HOST], []),
    "fault": ((ValueError(),), Fault(kind="lost"), None),
}


def raising(*_):
    raise RuntimeError("as a driver's tools may")


@pytest.fixture(autouse=True)
def _nothing_was_noted():
    doubts.forget()


@for_each("name", ABILITIES)
def test_a_device_that_has_an_ability_is_asked_and_what_one_raises_or_returns_instead_is_told_once(name):
    asked = []
    given, answer, without = ABILITIES[name]
    able = bare(**{name: lambda *given: asked.append(given) or answer})
    assert (answer, [given]) == (getattr(able, name)(*given), asked)
    assert (without, []) == (getattr(bare(), name)(*given), [*doubts.take()])
    for method, what in ((raising, "raised RuntimeError: as a driver's tools may"), (set, "returned set")):
        doubts.forget()
        device = bare(**{name: lambda *_, method=method: method()})
        assert [without] * 2 == [getattr(device, name)(*given) for _ in range(2)]
        told = f"Bare.{name} of a bare one {what}; the run goes on without what it tells: mend it"
        assert ([told], []) == ([*doubts.take()], [*doubts.take()])


@for_each("look", ["runs_products", "activity"])
def test_what_a_call_raises_while_it_is_looked_at_is_the_tests_if_it_does_so_by_itself(look):
    def fails(error):
        raise error

    def looks(call, *_):
        with suppress(ValueError):
            call()

    beside = [0] if look == "activity" else []
    own, skip = ValueError("of the call"), unittest.SkipTest("why")
    devices = [bare(**{look: method}) for method in (lambda call, *_: call(), looks)]
    for device, error in product(devices, (own, pytest.exit.Exception("stop"), skip, KeyboardInterrupt())):
        with pytest.raises(type(error)) as raised:
            capabilities.seen_of(getattr(device, look), partial(fails, error), int, *beside)
        assert raised.value is error
    assert [] == [*doubts.take()]
    broken = bare(**{look: lambda call, *_: [call(), 1 / 0]})
    assert capabilities.seen_of(getattr(broken, look), int, int, *beside) is None
    assert "ZeroDivisionError" in next(doubts.take())


def test_a_call_that_only_a_look_breaks_is_not_known_and_is_prepared_before_it_is_made_again():
    steps = []

    def call():
        steps.append("call")
        if steps.count("call") == 1:
            raise ValueError("as a library may that is looked at")

    device = bare(runs_products=lambda call: call() or True)
    assert capabilities.seen_of(device.runs_products, call, lambda: steps.append("prepare")) is None
    assert ["prepare", "call"] * 2 == steps


@for_each(
    "outcome", [pytest.exit.Exception("stop", 5), unittest.SkipTest("why"), pytest.skip.Exception("why")]
)
def test_an_outcome_that_a_device_is_asked_to_tell_passes(outcome):
    def ends(*_):
        raise outcome

    with pytest.raises(type(outcome)):
        bare(sm_mhz=ends).sm_mhz()


def test_a_device_without_a_required_method_is_none():
    with pytest.raises(TypeError, match=r"abstract.*holds"):
        type("Half", (TimedDevice,), {"asarray": np.array})()


def test_a_stranger_is_none_of_a_devices_arrays_and_none_of_its_librarys_objects():
    stranger = type("Series", (), {"__class__": property(raising)})()
    device = bare(holds=lambda value: isinstance(value, list), unpack=lambda value: {"values": value.values})
    assert capabilities.holds(device)([]) is True
    assert capabilities.holds(device)(stranger) is False
    assert capabilities.unpack(device)(stranger) is None


def test_what_is_wanted_is_found_once_in_containers_that_hold_each_other_or_make_others_without_end():
    class Nested(UserList):
        def __iter__(self):
            return iter([Nested([0])])

    one = {"x": 1, "deep": [[2], (3,)]}
    one["itself"] = [one, one]
    assert {1, 2, 3} == set(found_in(one, lambda part: isinstance(part, int)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(containers, "MOST_OPENED", 100)
        assert [] == list(found_in(Nested([0]), lambda part: isinstance(part, int)))


def test_a_pause_passes_on_the_clock_of_the_device_or_sleeps_where_that_is_the_hosts():
    simulated, host = SimulatedDevice("gpu", clock=Clock()), HostDevice("a processor")
    capabilities.pause(bare(clock=simulated.clock), 0.5)  # which can do neither
    for device in (simulated, host):
        started = device.clock()
        capabilities.pause(device, 0.01)
        assert device.clock() >= started + 0.01
    assert simulated.clock() == 0.01


def test_the_host_tells_the_time_that_its_processors_worked():
    device = HostDevice("a processor")
    before = device.processor_time()
    while device.processor_time() < before + 1e-3:
        sum(range(1000))


@for_each("counts", [True, False])
def test_where_counters_grew_in_a_round_the_gpu_was_slowed_down_and_else_it_says_so_itself(counts):
    counters = {"hardware thermal slowdown": 5, "hardware power brake": 7}
    device = bare(throttle=lambda: ("hot now",), throttle_counters=lambda: dict(counters) if counts else None)
    before = device.throttle_counters()
    assert capabilities.throttle(device, before) == (() if counts else ("hot now",))
    counters["hardware thermal slowdown"] += 1
    grown = "hardware thermal slowdown" if counts else "hot now"
    assert capabilities.throttle(device, before) == (grown,)
