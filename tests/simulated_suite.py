"""A suite with every verdict on a CPU and GPUs of simulated time: what it measures is the same each time.

It is what the pictures of the documentation show, and the tests of the page open.
"""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from pathlib import Path
from random import Random

from msgspec.structs import replace

from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.record import Run
from pytest_gpuperf.report.history_folder import History, add, read
from pytest_gpuperf.report.reader import load_report

SEED = 7
RUNS = 16  # of the history, the suite's own one the last
SLOWER_SINCE = 10  # the run from which the history's sort takes 1.3 times as long on the GPU
START = datetime(2026, 10, 1, 4, 30, tzinfo=UTC)

CONFTEST = """
import os
from random import Random

import numpy as np

from pytest_gpuperf.devices.simulated import Clock, SimulatedBackend, SimulatedDevice, Timing

LATER = os.environ["SUITE_STATE"] == "later"


class Simulated(SimulatedBackend):
    def __init__(self):
        super().__init__(name="simulated_pair")
        clock, chance = Clock(), Random(int(os.environ["SUITE_SEED"]))

        def device(kind, index, **timing):
            noise = lambda: chance.lognormvariate(0, 0.03)
            known = Timing(kernel=1e-6, bandwidth=2e9, **timing)
            return SimulatedDevice(kind, clock=clock, timing=known, noise=noise, index=index)

        self._cpu = device("cpu", 0)
        self._gpus = [device("gpu", index, launch=5e-6) for index in range(4)]


def pytest_gpuperf_devices():
    return [Simulated()]


def workload(device, *, cpu, gpu, size=20_000, dtype="float32", launches=1):
    values = device.asarray(np.arange(size, dtype=dtype))
    seconds = (cpu if device.kind == "cpu" else gpu) / launches

    def call():
        for _ in range(launches):
            device.launch(seconds)
        return values + 1

    return call
"""

FILES = {
    "test_linalg": """
import pytest
from conftest import LATER, workload


@pytest.mark.offload_threshold("n", at_most=512)
@pytest.mark.parametrize("n", [64, 128, 256, 512, 1024, 2048])
@pytest.mark.speedup
def test_matmul(device, n):
    return workload(device, cpu=6e-5 * (n / 128) ** 2, gpu=2e-4 + 4e-6 * (n / 128) ** 2, size=n * 16)


@pytest.mark.speedup(min=3)
def test_solve(device):
    return workload(device, cpu=21e-3, gpu=2.4e-3, size=100_000)


@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_eigh(device, dtype):
    return workload(device, cpu=18e-3, gpu=3.1e-3 if dtype == "float32" else 8.4e-3, dtype=dtype)
""",
    "test_signal": """
import pytest
from conftest import LATER, workload


@pytest.mark.speedup(min=4)
@pytest.mark.parametrize("n", [4096, 65536])
def test_fft(device, n):
    return workload(device, cpu=n * 9e-8, gpu=n * 1.1e-8, size=n)


@pytest.mark.speedup(min=2)
def test_sosfilt(device):
    return workload(device, cpu=2e-3, gpu=0.4e-3, launches=240)


@pytest.mark.speedup(min=2.5)
def test_resample(device):
    return workload(device, cpu=5.02e-3, gpu=2e-3)


@pytest.mark.speedup(min=2, transfer="always")
def test_convolve(device):
    return workload(device, cpu=7e-3, gpu=0.9e-3, size=400_000)
""",
    "test_dataframe": """
import pytest
from conftest import LATER, workload


@pytest.mark.speedup
def test_groupby(device):
    return workload(device, cpu=9.5e-3 if LATER else 6e-3, gpu=1.6e-3)


@pytest.mark.speedup(min=2)
def test_sort(device):
    return workload(device, cpu=8e-3, gpu=1.3e-3 if LATER else 1e-3)


@pytest.mark.speedup(min=5)
def test_join(device):
    return workload(device, cpu=12e-3, gpu=2e-3)


@pytest.mark.speedup(min=2)
def test_to_datetime(device):
    if device.kind == "gpu":
        raise NotImplementedError("strings are not supported on this device")
    return workload(device, cpu=4e-3, gpu=1e-3)


@pytest.mark.skip(reason="needs the parquet files of the nightly job")
@pytest.mark.speedup(min=2)
def test_read_parquet(device):
    return workload(device, cpu=4e-3, gpu=1e-3)
""",
    "test_training": """
import numpy as np
import pytest


@pytest.mark.scaling([1, 2, 4], efficiency=0.75)
def test_step(devices):
    parts = devices.asarray(np.ones(8192, dtype=np.float32), shard=0)

    def step():
        for device in devices.all:
            device.launch(16e-3 / devices.count)
        devices.all[0].launch(0.8e-3)
        return [part + 1 for part in parts]

    return step
""",
}


def measured(folder: Path) -> tuple[Run, History]:
    """Run the suite in a folder, its baseline first; return the run, and the history that it ends."""
    folder.mkdir(exist_ok=True)
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (folder / "tests").mkdir(exist_ok=True)
    for name, source in FILES.items():
        (folder / "tests" / f"{name}.py").write_text(source, encoding="utf-8")
    for state, report in (("before", "base.json"), ("later", "report.json")):
        _run(folder, state, report)
    run = load_report(folder / "report.json")
    run = replace(
        run,
        environment=_environment(run),
        started=_time(RUNS - 1),
        commit=_commit(RUNS - 1),
        gate=replace(run.gate, started=_time(SLOWER_SINCE - 1)),
    )
    for each in _runs(run):
        add(folder / "history", each)
    return run, read(folder / "history")


def _run(folder, state, report):
    """Run the suite as a user does; only the later run compares itself with the earlier one."""
    against = ["--gpuperf-baseline=base.json", "--gpuperf-fail-on=speedup:10%"] if state == "later" else []
    options = ["--gpuperf-gpu=simulated_pair", f"--gpuperf-json={report}", "--gpuperf-cost-ratio=3.5"]
    environment = {
        **os.environ,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "",
        "SUITE_STATE": state,
        "SUITE_SEED": str(SEED),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "pytest_gpuperf.plugin", *options, *against]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert (folder / report).exists(), done.stdout + done.stderr


def _environment(run):
    """Return an environment that is the same on every machine."""
    return replace(
        run.environment,
        host={"name": "runner-3", "system": "Linux", "machine": "x86_64", "memory": 1 << 37},
        cpu={"name": "simulated CPU", "logical": 16, "usable": 16, "quota": None, "governor": "performance"},
        python="3.13.5",
        packages={"numpy": "2.3.4", "pytest": "9.0.1", "pytest-gpuperf": "0.1.0"},
        thread_pools=(),
        variables={"OMP_NUM_THREADS": "16"},
    )


def _runs(run):
    """Yield earlier runs and this one: the earlier ones alike but for noise, and a step in one test."""
    chance = Random(SEED)  # noqa: S311 - a simulation
    for number in range(RUNS - 1):
        records = tuple(_earlier(record, number, chance) for record in run.records)
        yield replace(run, records=records, started=_time(number), commit=_commit(number))
    yield run


def _earlier(record, number, chance):
    if record.speedup is None:
        return record
    factor = chance.lognormvariate(0, 0.02)
    if record.nodeid.endswith("test_sort") and number < SLOWER_SINCE:
        factor *= 1.3
    if record.nodeid.endswith("test_groupby"):
        factor *= 6 / 9.5
    whole = record.speedup
    ends = [None if end is None else end * factor for end in (whole.low, whole.high)]
    return replace(record, speedup=replace(whole, value=whole.value * factor, low=ends[0], high=ends[1]))


def _time(number):
    return (START + timedelta(days=3 * number)).isoformat()


def _commit(number):
    digest = sha1(str(number).encode(), usedforsecurity=False).hexdigest()
    return Commit(id=digest, branch="main", time=_time(number), changed=False)
