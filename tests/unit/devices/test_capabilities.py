"""Abilities: what some devices can tell or do; None, or nothing, where one cannot."""

from inspect import signature
from types import SimpleNamespace
from weakref import ref

import numpy as np
import pytest
from cases import for_each

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing
from pytest_gpuperf.model.record import Clocks

COOL = Clocks(sm_mhz=1980, memory_mhz=3201, celsius=41, watts=123.0, throttle=())
NOTHING = {"throttle": (), "occupy": False, "unfinished": [], "holds_work": False, "is_immutable": False}
NOTHING |= {"compilations": 0}
ABILITIES = (
    "occupy",
    "clocks",
    "throttle",
    "free_memory",
    "holds_work",
    "is_immutable",
    "is_constant",
    "runs_products",
    "compilations",
    "host_memory",
    "processor_time",
    "sm_mhz",
    "pause",
    "unfinished",
)


def ask(name, device):
    """Use an ability of a device, with what it takes beside the device."""
    arguments = {
        "occupy": (0.5,),
        "pause": (0.5,),
        "holds_work": ("a graph",),
        "is_immutable": (np.ones(3),),
        "is_constant": (print,),
        "runs_products": (print,),
        "host_memory": (np.ones(3),),
    }
    beside = arguments.get(name, ())
    return getattr(capabilities, name)(device, *beside)


def test_these_are_all_of_them():
    others = (
        "context",
        "fault",
        "idle_remedy",
        "is_lazy",
        "is_synchronous",
        "other_processes",
        "sees_all_work",
        "shares_processors",
        "submitted",
        "throttle_counters",
        "unpack",
        "wait_for_result",
        "watch",
    )
    assert sorted((*ABILITIES, *others)) == sorted(capabilities.__all__)


@for_each("name", ABILITIES)
def test_a_device_without_an_ability_or_that_leaves_it_empty_does_and_tells_nothing(name):
    for empty in ({}, {name: None}):
        assert NOTHING.get(name) == ask(name, SimpleNamespace(clock=Clock(), **empty))


@for_each("name", sorted({*ABILITIES} - {"occupy", "pause"}))
@for_each("wrong", [{}, 3j, "hot"])
def test_an_ability_that_returns_what_it_cannot_be_is_none(name, wrong):
    assert NOTHING.get(name) == ask(name, SimpleNamespace(**{name: lambda *_: wrong}))


@for_each("name", sorted({*ABILITIES} - {"pause"}))
def test_an_ability_that_raises_when_it_is_looked_up_is_none(name):
    class Device:
        clock = staticmethod(lambda: 0.0)

    setattr(Device, name, property(lambda _: 1 / 0))
    assert NOTHING.get(name) == ask(name, Device())


def test_a_wait_whose_signature_cannot_be_read_is_one():
    class Wait:
        @property
        def __signature__(self):
            raise NameError("name 'Array' is not defined")  # as an annotation raises it in Python 3.14

        def __call__(self, result):
            pass

    wait = Wait()
    assert capabilities.wait_for_result(SimpleNamespace(wait=wait)) is wait


def test_a_pause_passes_on_the_clock_of_the_device():
    simulated = SimulatedDevice("gpu", clock=Clock())
    capabilities.pause(simulated, 0.5)
    assert simulated.clock() == 0.5


def test_a_device_of_the_hosts_clock_sleeps(monkeypatch):
    slept = []
    monkeypatch.setattr(capabilities, "sleep", slept.append)
    capabilities.pause(HostDevice("a processor"), 0.5)
    assert slept == [0.5]


@for_each("name", ["clocks", "throttle", "host_memory", "occupy"])
def test_the_host_has_none_of_them_but_its_processor_time(name):
    assert NOTHING.get(name) == ask(name, HostDevice("a processor"))


def test_the_host_tells_the_time_that_its_processors_worked():
    device = HostDevice("a processor")
    before = capabilities.processor_time(device)
    while capabilities.processor_time(device) < before + 1e-3:
        sum(range(1000))
    assert capabilities.processor_time(device) > before


@for_each(
    ("expected", "name"),
    [(COOL, "clocks"), (("power cap",), "throttle"), ("pinned", "host_memory"), (2.5, "processor_time")],
)
def test_a_device_that_has_an_ability_is_asked(expected, name):
    assert expected == ask(name, SimpleNamespace(**{name: lambda *beside: expected}))
    host, asked = np.ones(3), []
    capabilities.host_memory(SimpleNamespace(host_memory=asked.append), host)
    assert asked[0] is host, "about what is to be copied"


def test_a_device_that_waits_for_results_may_raise_in_it_and_others_have_no_such_wait():
    assert capabilities.wait_for_result(HostDevice("a processor")) is None
    with pytest.raises(RuntimeError, match="wait failed"):
        capabilities.wait_for_result(Failing())(3)


def test_a_device_that_is_occupied_is_busy_for_so_long_and_the_call_returns_at_once():
    clock = Clock()
    gpu = SimulatedDevice("gpu", clock=clock)
    assert capabilities.occupy(gpu, 0.5) is True
    assert (0.0, 0) == (clock(), gpu.launches)
    gpu.synchronize()
    assert clock() == 0.5


def test_the_simulated_gpu_has_all_but_clocks_and_processors_whose_time_the_cpu_tells():
    gpu = SimulatedDevice("gpu", clock=Clock(), throttle=lambda: ("power cap",))
    assert (None, None) == (capabilities.clocks(gpu), capabilities.processor_time(gpu))
    assert ("power cap",) == capabilities.throttle(gpu)
    assert capabilities.host_memory(gpu, np.ones(3)) == "pageable"
    cpu = SimulatedDevice("cpu", clock=Clock(), timing=Timing(kernel=2e-3, threads=4))
    cpu.launch()
    assert (pytest.approx(8e-3), ()) == (capabilities.processor_time(cpu), capabilities.throttle(cpu))


def test_where_counters_grew_in_a_round_the_gpu_was_slowed_down_whatever_it_says_now():
    counters = {"hardware thermal slowdown": 5, "hardware power brake": 7}
    device = SimpleNamespace(throttle=lambda: ("hot now",), throttle_counters=lambda: dict(counters))
    before = capabilities.throttle_counters(device)
    assert capabilities.throttle(device, before) == ()
    counters["hardware thermal slowdown"] += 1
    assert capabilities.throttle(device, before) == ("hardware thermal slowdown",)


def test_where_there_are_no_counters_it_says_what_slows_it_down_now():
    device = SimpleNamespace(throttle=lambda: ("hot now",))
    assert capabilities.throttle(device, capabilities.throttle_counters(device)) == ("hot now",)


class Failing:
    """A device whose abilities all fail, as a driver's tools may."""

    def __getattr__(self, ability):
        def fail(*asked):
            raise RuntimeError(f"{ability} failed")

        return fail


@for_each(
    ("expected", "ability"),
    [
        (False, lambda device: capabilities.occupy(device, 1.0)),
        (None, capabilities.clocks),
        ((), capabilities.throttle),
        (None, lambda device: capabilities.host_memory(device, b"")),
        (None, capabilities.processor_time),
        ([], capabilities.unfinished),
    ],
)
def test_an_ability_that_fails_is_like_one_that_is_not_there(expected, ability):
    assert expected == ability(Failing())


@pytest.mark.parametrize(
    ("expected", "wait"),
    [
        (True, lambda result: None),
        (True, lambda *results: None),
        (True, {}.get),
        (False, lambda: None),
        (False, lambda result, stream: None),
        (False, "it cannot be called"),
    ],
)
def test_a_wait_that_does_not_take_one_result_is_none(expected, wait):
    assert expected is (capabilities.wait_for_result(SimpleNamespace(wait=wait)) is not None)


def test_the_wait_of_a_class_is_examined_once_and_keeps_no_device_alive(monkeypatch):
    """It is asked for before every block."""
    examined = []
    monkeypatch.setattr(capabilities, "signature", lambda found: examined.append(found) or signature(found))

    class Waiting:
        def wait(self, result):
            return result

    class Draining:
        def wait(self):
            pass

    device = Waiting()
    assert [3, 3] == [capabilities.wait_for_result(device)(3) for _ in range(2)]
    assert [None, None] == [capabilities.wait_for_result(Draining()) for _ in range(2)]
    assert [Waiting.wait, Draining.wait] == examined
    left = ref(device)
    del device
    assert left() is None
