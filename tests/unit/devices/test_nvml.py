"""NVML: what a device that it knows makes of its answers, on a stand-in for NVIDIA's binding."""

import os
import sys
from types import SimpleNamespace

import pytest
from cases import for_each

from pytest_gpuperf.devices import nvml
from pytest_gpuperf.model.record import Clocks

BUS = "0000:18:00.0"
OWN = os.getpid()
CLOCK, POWER, TEMPERATURE = (f"nvmlDeviceGet{name}" for name in ("ClockInfo", "PowerUsage", "Temperature"))
NOTHING = {"sm_mhz": None, "memory_mhz": None, "celsius": None, "watts": None, "throttle": ()}
HOT = ("hardware slowdown", "hardware thermal slowdown")
NEWER, OLDER = "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"


class Gpu(nvml.MonitoredDevice):
    def _pci_bus_id(self):
        return BUS


Gpu.__abstractmethods__ = frozenset()  # nothing but NVML is asked here


def refuse(*_):
    raise sys.modules["pynvml"].NVMLError("Not Supported")


@pytest.fixture
def gpu(with_nvml):
    """Return a GPU that NVML, with these functions of its own, knows by its bus; it is asked at first use."""

    def call(*, bits=0, **changed):
        reasons = dict.fromkeys((NEWER, OLDER), lambda _: bits)
        found = Gpu()
        asked = with_nvml(**{**reasons, **changed})
        assert asked == []
        found.throttle_counters()
        assert asked == [BUS]
        return found

    return call


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
def test_clocks_are_in_mhz_degrees_and_watts_and_one_that_is_missing_costs_no_other(gpu, changed, told):
    expected = {"sm_mhz": 1980, "memory_mhz": 3201, "celsius": 41, "watts": 123.456, "throttle": ()}
    found = gpu(**changed)
    assert found.clocks() == Clocks(**{**expected, **told})
    assert found.sm_mhz() == found.clocks().sm_mhz


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
def test_each_reason_has_its_name_and_only_some_are_bad_whatever_they_were_before(gpu, bits, named, bad):
    states = iter([bits, bits, 0])
    found = gpu(**{NEWER: lambda _: next(states)})
    assert (named, bad, ()) == (found.clocks().throttle, found.throttle(), found.throttle())


@for_each("lacking", [{NEWER: None}, {NEWER: refuse}, {OLDER: None}])
def test_either_name_of_the_reasons_is_enough_for_an_older_binding_or_driver_and_a_newer_one(gpu, lacking):
    assert gpu(bits=0x40, **lacking).throttle() == ("hardware thermal slowdown",)


WHOLE = 0xFFFFFFFF  # of a GPU that is not divided into instances


def process(pid, instance=WHOLE, memory=1 << 20):
    return SimpleNamespace(pid=pid, gpuInstanceId=instance, usedGpuMemory=memory)


@for_each(
    ("others", "processes"),
    [
        (None, None),  # NVML does not list them
        (0, [process(OWN)]),
        (2, [process(OWN), process(1), process(2)]),
        (0, [process(1)]),  # its own, by another number: in a container
        (1, [process(1), process(2)]),
        (0, [process(OWN, 7), process(1, 8)]),
        (1, [process(OWN, 7), process(1, 8), process(2, 7)]),
        (None, [process(1, 7), process(2, 8)]),
    ],
)
def test_other_processes_are_those_beside_this_one_on_its_part_of_the_gpu(gpu, others, processes):
    found = gpu(nvmlDeviceGetComputeRunningProcesses=processes and (lambda _: processes))
    assert found.other_processes() == others


@for_each(
    ("others", "processes", "clients"),
    [
        (3, [process(9)], [process(OWN), process(1), process(2), process(3)]),  # 9 is MPS's server
        (3, [process(9)], [process(pid) for pid in (4, 1, 2, 3)]),  # in a container
        (0, [process(9)], [process(OWN)]),
        (1, [process(9), process(OWN), process(1)], [process(OWN), process(1)]),  # both lists have them
        (2, [process(9), process(8)], [process(OWN), process(1)]),
        (2, [process(OWN), process(9)], [process(1), process(2)]),  # this one does without MPS
        (1, [process(OWN), process(1)], []),
    ],
)
def test_clients_of_mps_are_other_processes_and_its_server_is_none(gpu, others, processes, clients):
    lists = {
        "nvmlDeviceGetComputeRunningProcesses": lambda _: processes,
        "nvmlDeviceGetMPSComputeRunningProcesses": lambda _: clients,
    }
    assert others == gpu(**lists).other_processes()


@for_each(("others", "memory", "own"), [(1, None, OWN), (0, None, 3), (4, 1 << 20, OWN)])
def test_windows_programs_that_only_draw_are_no_other_users_of_the_gpu(gpu, others, memory, own):
    pids = [3, 4, 5, OWN, 1] if own == OWN else [3, 4, 5, 1]
    lists = {
        "nvmlDeviceGetComputeRunningProcesses": lambda _: [process(pid, memory=memory) for pid in pids],
        "nvmlDeviceGetGraphicsRunningProcesses": lambda _: [process(pid) for pid in (3, 4, 5, OWN)],
    }
    assert others == gpu(**lists).other_processes()


FIELDS = {
    f"NVML_FI_DEV_CLOCKS_EVENT_REASON_{name}": number
    for name, number in {"SW_THERM_SLOWDOWN": 5, "HW_THERM_SLOWDOWN": 7, "HW_POWER_BRAKE_SLOWDOWN": 9}.items()
}
COUNTED = {"software thermal slowdown": 5, "hardware thermal slowdown": 7, "hardware power brake": 9}


def reading(*failing):
    """Return what reads the counters, of which the GPU lacks some."""

    def read(handle, ids):
        values = [SimpleNamespace(ullVal=each) for each in ids]
        return [SimpleNamespace(nvmlReturn=3 * (each.ullVal in failing), value=each) for each in values]

    return {"nvmlDeviceGetFieldValues": read}


OLDER_GPU = {
    "NVML_PERF_POLICY_THERMAL": 11,
    "nvmlDeviceGetViolationStatus": lambda handle, policy: SimpleNamespace(violationTime=policy),
}


@for_each(
    ("counted", "functions"),
    [
        (COUNTED, reading()),
        ({"software thermal slowdown": 5}, reading(7, 9)),
        (None, reading(5, 7, 9)),
        (None, {"nvmlDeviceGetFieldValues": refuse}),
        (None, {}),  # the binding is too old
        ({"thermal slowdown": 11}, OLDER_GPU),
    ],
)
def test_each_bad_reason_has_a_counter_where_the_gpu_has_it_and_an_older_gpu_one_of_heat(
    gpu, counted, functions
):
    assert counted == gpu(**functions, **FIELDS).throttle_counters()


def not_found(*_):
    raise sys.modules["pynvml"].NVMLError("Not Found")


@for_each(
    ("reason", "changed"),
    [
        ('pynvml is not installed; pip install "pytest-gpuperf[nvml]"', None),
        ("NVML does not start: Not Found; check that nvidia-smi runs", {"nvmlInit": not_found}),
        (
            f"does not know the GPU on bus {BUS}: Not Found; check that nvidia-smi lists it",
            {"nvmlDeviceGetHandleByPciBusId": not_found},
        ),
    ],
)
def test_without_nvml_nothing_is_known_of_the_clocks_but_why(monkeypatch, with_nvml, reason, changed):
    with_nvml(**(changed or {}))
    if changed is None:
        monkeypatch.setitem(sys.modules, "pynvml", None)
    gpu = Gpu()
    assert gpu.clocks() is None
    told = gpu.sm_mhz(), gpu.throttle(), gpu.throttle_counters(), gpu.other_processes()
    assert (None, (), None, None) == told
    assert reason in gpu.clocks_reason


def test_nvidias_own_binding_has_what_is_asked_of_it():
    pynvml = pytest.importorskip("pynvml")
    for name in ("NVML_CLOCK_SM", "NVML_CLOCK_MEM", "NVML_TEMPERATURE_GPU", "NVMLError", "nvmlInit"):
        assert hasattr(pynvml, name)
    assert all(hasattr(pynvml, name) for name in (*FIELDS, "nvmlDeviceGetFieldValues"))
    for kind in ("Compute", "Graphics", "MPSCompute"):
        assert hasattr(pynvml, f"nvmlDeviceGet{kind}RunningProcesses")
    assert "usedGpuMemory" in dict(pynvml.c_nvmlProcessInfo_v3_t._fields_)
