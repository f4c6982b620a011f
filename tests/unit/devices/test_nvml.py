"""NVML: what is made of its answers, on a stand-in for NVIDIA's binding."""

import os
import sys
from types import SimpleNamespace

import pytest
from cases import for_each

from pytest_gpuperf.devices import nvml
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Clocks

BUS = "0000:18:00.0"
OWN = os.getpid()
CLOCK, POWER, TEMPERATURE = (f"nvmlDeviceGet{name}" for name in ("ClockInfo", "PowerUsage", "Temperature"))
NOTHING = {"sm_mhz": None, "memory_mhz": None, "celsius": None, "watts": None, "throttle": ()}
HOT = ("hardware slowdown", "hardware thermal slowdown")
NEWER, OLDER = "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"


class NVMLError(Exception):
    pass


class NVMLError_NotSupported(NVMLError):  # noqa: N801 - NVIDIA's name
    pass


def refuse(*_):
    raise NVMLError_NotSupported("Not Supported")


def fake(monkeypatch, *, bits=0, **changed):
    """Put a stand-in for pynvml in place; `changed` are its functions by name, None for one it lacks."""
    library = SimpleNamespace(
        NVMLError=NVMLError,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByPciBusId=lambda bus: f"handle of {bus}",
        nvmlDeviceGetClockInfo=lambda handle, clock: {1: 1980, 2: 3201}[clock],
        nvmlDeviceGetTemperature=lambda handle, sensor: 41,
        nvmlDeviceGetPowerUsage=lambda handle: 123456,
        nvmlDeviceGetCurrentClocksEventReasons=lambda handle: bits,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda handle: bits,
    )
    for name, function in changed.items():
        setattr(library, name, function)
        if function is None:
            delattr(library, name)
    monkeypatch.setitem(sys.modules, "pynvml", library)
    return nvml.monitor(BUS)


@for_each(
    ("changed", "told"),
    [
        ({}, {}),
        ({"nvmlDeviceGetTemperatureV": lambda handle, sensor: 42, TEMPERATURE: None}, {"celsius": 42}),
        ({"nvmlDeviceGetTemperatureV": refuse}, {}),
        ({TEMPERATURE: None, POWER: None}, {"celsius": None, "watts": None}),  # the binding lacks them
        ({POWER: refuse}, {"watts": None}),
        ({CLOCK: refuse, TEMPERATURE: refuse, POWER: refuse, NEWER: refuse, OLDER: refuse}, NOTHING),
    ],
)
def test_clocks_are_in_mhz_degrees_and_watts_and_one_that_is_missing_costs_no_other(
    monkeypatch, changed, told
):
    expected = {"sm_mhz": 1980, "memory_mhz": 3201, "celsius": 41, "watts": 123.456, "throttle": ()}
    assert fake(monkeypatch, **changed).clocks() == Clocks(**{**expected, **told})


def test_the_clock_of_the_multiprocessors_alone_is_one_question_about_the_gpu_on_its_bus(monkeypatch):
    asked = []
    monitor = fake(monkeypatch, nvmlDeviceGetClockInfo=lambda *question: asked.append(question) or 1980)
    assert (1980, [(f"handle of {BUS}", 1)]) == (monitor.sm_mhz(), asked)


@for_each(
    ("bits", "named", "bad"),
    [
        (0x0, (), ()),
        (0x1, (), ()),
        (0x2, (), ()),
        (0x4, ("power cap",), ()),
        (0x8, ("hardware slowdown",), ()),  # a change of clocks reports it, too
        (0x10, ("sync boost",), ()),
        (0x20, ("software thermal slowdown",), ("software thermal slowdown",)),
        (0x40, ("hardware thermal slowdown",), ("hardware thermal slowdown",)),
        (0x80, ("hardware power brake",), ("hardware power brake",)),
        (0x100, ("display clock",), ()),
        (0x1 | 0x4 | 0x8 | 0x40, (*HOT, "power cap"), HOT),
    ],
)
def test_each_reason_has_its_name_and_only_some_are_bad_whatever_they_were_before(
    monkeypatch, bits, named, bad
):
    states = iter([bits, bits, 0])
    monitor = fake(monkeypatch, **{NEWER: lambda _: next(states)})
    assert (named, bad, ()) == (monitor.clocks().throttle, monitor.throttle(), monitor.throttle())


@pytest.mark.parametrize(
    "lacking",
    [{NEWER: None}, {NEWER: refuse}, {OLDER: None}],
    ids=["an older binding", "an older driver", "a newer one"],
)
def test_the_older_name_is_asked_where_the_newer_is_not_there_and_either_is_enough(monkeypatch, lacking):
    assert fake(monkeypatch, bits=0x40, **lacking).throttle() == ("hardware thermal slowdown",)


WHOLE = 0xFFFFFFFF  # of a GPU that is not divided into instances


def process(pid, instance=WHOLE):
    return SimpleNamespace(pid=pid, gpuInstanceId=instance)


@for_each(
    ("others", "processes"),
    [
        (0, []),
        (0, [process(OWN)]),
        (2, [process(OWN), process(1), process(2)]),
        (0, [process(1)]),  # its own, by another number: in a container
        (1, [process(1), process(2)]),
        (0, [process(OWN, 7), process(1, 8)]),
        (1, [process(OWN, 7), process(1, 8), process(2, 7)]),
        (None, [process(1, 7), process(2, 8)]),
    ],
)
def test_other_processes_are_those_beside_this_one_on_its_part_of_the_gpu(monkeypatch, others, processes):
    monitor = fake(monkeypatch, nvmlDeviceGetComputeRunningProcesses=lambda handle: processes)
    assert monitor.other_processes() == others


def test_processes_that_nvml_does_not_list_are_not_known(monkeypatch):
    assert fake(monkeypatch).other_processes() is None
    assert fake(monkeypatch, nvmlDeviceGetComputeRunningProcesses=refuse).other_processes() is None


def fields(*values, failed=()):
    """Return a stand-in for nvmlDeviceGetFieldValues, whose values are found by their ids."""

    def read(handle, ids):
        return [
            SimpleNamespace(
                nvmlReturn=3 if found in failed else 0, value=SimpleNamespace(ullVal=values[found])
            )
            for found in ids
        ]

    return read


FIELDS = {
    "NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN": 0,
    "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN": 1,
    "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN": 2,
}


@for_each("lacking", [(), (1, 2)])
def test_each_bad_reason_has_a_counter_of_its_nanoseconds_where_the_gpu_has_it(monkeypatch, lacking):
    monitor = fake(monkeypatch, nvmlDeviceGetFieldValues=fields(5, 7, 9, failed=lacking), **FIELDS)
    counted = {"software thermal slowdown": 5, "hardware thermal slowdown": 7, "hardware power brake": 9}
    assert monitor.throttle_counters() == dict(list(counted.items())[: 3 - len(lacking)])


@pytest.mark.parametrize("reader", [fields(5, 7, 9, failed=(0, 1, 2)), refuse])
def test_older_gpus_count_the_time_of_heat_alone(monkeypatch, reader):
    monitor = fake(
        monkeypatch,
        nvmlDeviceGetFieldValues=reader,
        NVML_PERF_POLICY_THERMAL=1,
        nvmlDeviceGetViolationStatus=lambda handle, policy: SimpleNamespace(violationTime=11 * policy),
        **FIELDS,
    )
    assert monitor.throttle_counters() == {"thermal slowdown": 11}


def test_without_counters_there_are_none(monkeypatch):
    assert fake(monkeypatch).throttle_counters() is None
    refused = {"nvmlDeviceGetFieldValues": refuse, "nvmlDeviceGetViolationStatus": refuse}
    assert fake(monkeypatch, NVML_PERF_POLICY_THERMAL=1, **refused, **FIELDS).throttle_counters() is None


def test_a_missing_binding_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(GpuPerfError, match=r'pynvml is not installed; pip install "pytest-gpuperf\[nvml\]"'):
        nvml.monitor(BUS)


@for_each(
    ("said", "function"),
    [
        ("NVML does not start: Not Found; check that nvidia-smi runs", "nvmlInit"),
        (
            f"does not know the GPU on bus {BUS}: Not Found; check that nvidia-smi lists it",
            "nvmlDeviceGetHandleByPciBusId",
        ),
    ],
)
def test_nvml_that_does_not_start_or_know_the_gpu_says_why_and_what_to_do(monkeypatch, said, function):
    def not_found(*_):
        raise NVMLError("Not Found")

    with pytest.raises(GpuPerfError) as caught:
        fake(monkeypatch, **{function: not_found})
    assert said in str(caught.value)


def test_nvidias_own_binding_has_what_is_asked_of_it():
    pynvml = pytest.importorskip("pynvml")
    for name in ("NVML_CLOCK_SM", "NVML_CLOCK_MEM", "NVML_TEMPERATURE_GPU", "NVMLError", "nvmlInit"):
        assert hasattr(pynvml, name)
    assert {pynvml.nvmlClocksThrottleReasonSwPowerCap, pynvml.nvmlClocksThrottleReasonSyncBoost} < set(
        nvml._REASONS
    )
    assert all(hasattr(pynvml, name) for name in (*nvml._COUNTERS.values(), "nvmlDeviceGetFieldValues"))
    assert pynvml.nvmlDeviceGetComputeRunningProcesses
    assert pynvml.nvmlDeviceGetViolationStatus
    assert pynvml.NVML_PERF_POLICY_THERMAL
    assert set(nvml._BAD) == {
        pynvml.nvmlClocksThrottleReasonHwSlowdown,
        pynvml.nvmlClocksThrottleReasonSwThermalSlowdown,
        pynvml.nvmlClocksThrottleReasonHwThermalSlowdown,
        pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
    }
