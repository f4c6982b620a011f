"""From the environments of several runs to whether one machine made them, and how they differ."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Literal

from pytest_gpuperf.devices.environment import THREADS, blocking_setting
from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import Demand, Kind
from pytest_gpuperf.model.measurement import DeviceInfo
from pytest_gpuperf.model.record import Environment, Record

Conditions = Mapping[str, str | None]
"""What must be the same for two measurements to be comparable, by name; None for what is not reported."""

OF_BASELINE = "{}: {} in the baseline, {} now"
"""The form of a difference from a baseline."""
_VERSION = re.compile(r"(\d+)(\.\d+)?[\w.+-]*")
_CUDA = re.compile(r"\bcuda (\d\d)0(\d)0\b")  # CUDA's own encoding, which JAX reports: 12090 is 12.9
# How a GPU rounds, which of cuBLAS's kernels may run, and how much of the GPU this process gets.
_OF_GPUS = (
    "CUPY_TF32",
    "NVIDIA_TF32_OVERRIDE",
    "JAX_DEFAULT_MATMUL_PRECISION",
    "JAX_ENABLE_X64",
    "MLX_ENABLE_TF32",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
)
# Defaults, which would only lengthen a key.
_UNREMARKABLE = frozenset({None, "no", "full", "never", "not set", "default"})


def run_differences(first: Environment, *others: Environment) -> tuple[str, ...]:
    """Return how the conditions of whole runs differ from those of the first: `name: first, other`."""
    pairs = ((run_conditions(first), run_conditions(other)) for other in others)
    return tuple(dict.fromkeys(difference for pair in pairs for difference in differences(*pair)))


def run_conditions(environment: Environment) -> Conditions:
    """Return what the measurements of a whole run depend on."""
    return {**_processor(environment), **_device("GPU", environment.gpu), **_settings_of_gpus(environment)}


def device_conditions(environment: Environment, kinds: Sequence[Kind]) -> Conditions:
    """Return what the times of all tests on these kinds of device depend on, whatever the tests do."""
    of_cpu = _processor(environment) if "cpu" in kinds else {}
    return {**of_cpu, **(_settings_of_gpus(environment) if "gpu" in kinds else {})}


def record_conditions(devices: Conditions, record: Record, kinds: Sequence[Kind]) -> Conditions:
    """Return what one test's times on these kinds of device depend on; on both, also on what they include.

    `devices` are the `device_conditions` of its run.
    """
    conditions = {**devices, "scope": record.scope}
    if (its := record.scaling) is not None:
        conditions["scaling"] = f"{its.mode} from {units.count(its.counts[0], its.member)}"
    for kind in kinds:
        if measured := record.measurement(kind):
            conditions |= _device(kind.upper(), measured.device)
            conditions[f"{kind.upper()} dtypes"] = ", ".join(sorted(measured.dtypes))
            conditions[f"{kind.upper()} shapes"] = ", ".join(measured.shapes)
    return {**conditions, **_included(record.demand)} if len(kinds) > 1 else conditions


def differences(before: Conditions, now: Conditions, form: str = "{}: {}, {}") -> tuple[str, ...]:
    """Return what differs, `name: before, now`; a value that either does not report differs from nothing."""
    changed = {name for name, value in now.items() - before.items() if value and before.get(name)}
    return tuple(form.format(name, before[name], now[name]) for name in now if name in changed)


def key(
    environment: Environment, cpu: DeviceInfo | None, gpu: DeviceInfo | None, demand: Demand | None = None
) -> str:
    """Return the conditions of a result as one line, which results that can be compared share.

    It leaves out the test's own work: dtypes, shapes and whether its body or a call was timed.
    """
    devices = {**_device("CPU", cpu), **(_device("GPU", gpu) or {"GPU": "none"})}
    settings = {**_settings_of_gpus(environment), **_included(demand or Demand())}
    conditions = {**_processor(environment), **devices, **settings}
    return ", ".join(f"{name} {value}" for name, value in conditions.items() if value not in _UNREMARKABLE)


def _processor(environment: Environment) -> Conditions:
    """Return the CPU, how much of it a run could use, and the interpreter that it ran."""
    usable = environment.usable_processors
    processors = None if usable is None else f"{usable:g}"
    known = {"CPU": _name(environment.cpu), "processors": processors}
    return {**known, "python": _version(environment.python, "minor"), **_variables(environment, THREADS)}


@cache
def _device(name: str, device: DeviceInfo | None) -> Conditions:
    if device is None:
        return {}
    library = device.library.partition(",")[0]  # what follows are its driver and its runtime
    # Without NVML a driver tells only for which version of CUDA it is: these do not compare with its own.
    is_for = " for" if (device.driver or "").startswith("for ") else ""
    return {
        **({name: device.name} if device.kind == "gpu" else {}),  # `_processor` has the CPU's name
        f"{name} backend": device.backend,
        f"{name} emulated": "yes" if device.emulated else "no",
        f"{name} library": _version(library, "minor"),
        # Minor releases of driver and runtime change no times that a tolerance would not cover.
        f"{name} driver{is_for}": _version((device.driver or "").removeprefix("for "), "major"),
        f"{name} runtime": _version(device.runtime, "major"),
        f"{name} precision": device.reduced_precision or "full",
        f"{name} convolutions": device.reduced_convolutions or "full",
        f"{name} settings": None if device.settings is None else ", ".join(device.settings) or "default",
        # Models that share a name, or instances of one GPU, differ in these. Drivers keep some of the
        # memory, and not always as much.
        f"{name} memory": _rounded(device.memory, "GiB", 2**30),
        f"{name} multiprocessors": _rounded(device.multiprocessors),
        f"{name} power limit": _rounded(device.power_limit_watts, "W"),
    }


def _included(demand: Demand) -> Conditions:
    calls = f" for {units.count(demand.calls, 'call')}" if demand.calls else ""
    return {"transfer": f"{demand.transfer}{calls}", "latency": "yes" if demand.latency else "no"}


def _settings_of_gpus(environment: Environment) -> Conditions:
    """Return the settings that change how a GPU works, and whether it is waited for after each kernel."""
    variables = environment.variables
    blocking = None if variables is None else blocking_setting(variables) or "not set"
    return {**_variables(environment, _OF_GPUS), "blocking launches": blocking}


def _variables(environment: Environment, names: Iterable[str]) -> dict[str, str | None]:
    """Return what environment variables set; None where the report does not list them."""
    variables = environment.variables
    return {name: None if variables is None else variables.get(name, "not set") for name in names}


@cache
def _version(text: str | None, part: Literal["major", "minor"]) -> str | None:
    """Return a text with each version in it cut down to its major or minor part: `numpy 2.4`."""
    groups = r"\1" if part == "major" else r"\1\2"
    return _VERSION.sub(groups, _CUDA.sub(r"cuda \1.\2", text)) if text else None


def _rounded(number: float | None, unit: str = "", size: int = 1) -> str | None:
    """Return a number as that of whole units, of which each is so large; None where it is not known."""
    return None if number is None else f"{number / size:.0f} {unit}".strip()


def _name(survey: Mapping[str, object]) -> str | None:
    """Return the name in what an environment reports of its host, or of its CPU."""
    return str(survey.get("name") or "") or None
