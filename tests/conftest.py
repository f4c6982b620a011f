"""What the tests share: pytest in pytest, on simulated devices, and stand-ins for a machine."""

import compileall
import gc
import json
import os
import re
import sys
from contextlib import suppress
from functools import partial, wraps
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import settings
from real_clock import REAL_TIME

import pytest_gpuperf
from pytest_gpuperf import plugin
from pytest_gpuperf.devices import environment

# pytester forgets modules that an in-process run imported: to import them again takes longer than most runs,
# and C extensions cannot be imported twice, nor what torch compiles with.
for name in (
    "numpy",
    "numpy.random",
    "jsonschema",
    "dpnp",
    "dpctl",
    "cupy",
    "filelock",
    "hypothesis",
    "msgspec",
    "threadpoolctl",
    "torch._inductor.compile_fx",
    "array_api_compat.torch",
    "unittest.mock",
):
    with suppress(ModuleNotFoundError):
        import_module(name)
for module in walk_packages(pytest_gpuperf.__path__, "pytest_gpuperf."):
    import_module(module.name)

# Processes that tests start would compile the package each time, unless pip did so where it is installed.
for folder in pytest_gpuperf.__path__:
    compileall.compile_dir(folder, quiet=2)
os.environ.setdefault(
    "OPENBLAS_NUM_THREADS", "1"
)  # of inner runs, whose threads would only wait for each other

pytest_plugins = ["pytester"]


TESTS = Path(__file__).parent
UNIT = TESTS / "unit"
LIBRARIES = (TESTS / "backends", TESTS / "gpu", UNIT / "devices")  # where every test is marked `libraries`

# Machines that are busy need longer: how long a case takes is no part of what hypothesis tests here.
# What is drawn differs from run to run: many runs see much.
settings.register_profile("tests", deadline=None, max_examples=25)
settings.load_profile("tests")


def pytest_configure(config):
    """Let --dist=loadfile begin with what comes first: the files with the fewest tests take longest."""
    if hasattr(config.option, "loadscopereorder"):  # pytest-xdist 3.7
        config.option.loadscopereorder = False


def pytest_ignore_collect(collection_path, config):
    """Leave out files without a test of one room where those alone are asked for: reading them takes long."""
    if config.option.markexpr == "unit" and collection_path.is_file() and UNIT not in collection_path.parents:
        return True
    return None


def pytest_collection_modifyitems(items):
    """Mark as `unit` what tests a room by calling it, and as `libraries` what is for those of devices."""
    for item in items:
        if UNIT in item.path.parents and "pytester" not in item.fixturenames:
            item.add_marker(pytest.mark.unit)
        if any(folder in item.path.parents for folder in LIBRARIES):
            item.add_marker(pytest.mark.libraries)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop():
    """Leave no compiled file of what tests write, and what was collected to no collector of garbage.

    Python takes a compiled file for its source's if both have the same size and second: a file that a test
    writes twice, with "cpu" and then with "gpu", would run as it was first.
    """
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    gc.collect()
    gc.freeze()


def may_skip(node):
    """Return whether it needs what other parts of .ci/run have, or a GPU, where nothing else may skip.

    Where the extra `test` alone is installed (GPUPERF_NO_SKIP is "plain"), other parts have libraries, fake
    CUDA devices, a browser and more plugins; where everything but a GPU is, one has the fake devices.
    """
    folders = set(node.path.relative_to(TESTS).parts)
    if os.environ["GPUPERF_NO_SKIP"] == "plain":
        elsewhere = {"backends", "beyond_test", "browser", "fakes", "gpu"} & folders
        return bool(elsewhere) or node.get_closest_marker("libraries") is not None
    return bool({"fakes", "gpu"} & folders) and "FAKE_CUDA" not in os.environ


def fail_for_a_skip(report, node):
    """Let a skip fail where GPUPERF_NO_SKIP is set: it must not be that no part of .ci/run runs a test."""
    expected = hasattr(report, "wasxfail")
    if report.skipped and not expected and os.environ.get("GPUPERF_NO_SKIP") and not may_skip(node):
        report.outcome = "failed"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return fail_for_a_skip((yield), collector)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    return fail_for_a_skip((yield), item)


PLUGINS = {
    "-n": "xdist",
    "--benchmark": "benchmark",
    "--cov": "pytest_cov",
    "--dist": "xdist",
    "--json-report": "pytest_jsonreport",
    "--reruns": "rerunfailures",
    "--timeout": "timeout",
}  # by how their options begin


@pytest.fixture
def pytester(pytester, request, monkeypatch):
    """Run pytest in pytest with our plugin and those whose options are used, unless marked `all_plugins`.

    All of those in the extra `test` take longer to import than most runs take, in each process and worker.
    So does the garbage collected five times as a process ends; pytester saves that in its own process only.
    """
    # The first two let pytest say each reason once more; the others are of a run of our own tests.
    for name in ("CI", "BUILD_NUMBER", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)
    if request.node.get_closest_marker("all_plugins"):
        return pytester
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setattr(os, "fsync", lambda _: None)  # no test waits for a disk

    def with_plugins(call):
        @wraps(call)
        def calling(*arguments, **options):
            words = [str(argument) for argument in arguments]
            used = {name for word in words for option, name in PLUGINS.items() if word.startswith(option)}
            used = sorted(name for name in {"gpuperf", *used} if f"no:{name}" not in words)
            ends_itself = call.__name__ == "inline_run" and "xdist" not in used
            quick = () if ends_itself else ("-pno:unraisableexception",)
            if call.__name__ == "inline_run" and used == ["gpuperf"] and "-pgpuperf" not in words:
                # By its name it is looked for in what every installed distribution says of itself.
                options["plugins"], used = [plugin, *options.get("plugins", ())], []
            return call(*(f"-p{name}" for name in used), *quick, *arguments, **options)

        return calling

    for name in ("inline_run", "parseconfig", "runpytest_subprocess"):
        setattr(pytester, name, with_plugins(getattr(pytester, name)))
    return pytester


@pytest.fixture
def forked_workers(monkeypatch):
    """Let inner runs fork their workers from this process, where the system can, and start no Python.

    Other tests have whole workers: test_report_files.py has one that gives the records of a run without it.
    So have all where JAX is installed, whose threads a fork may leave with a lock that nobody frees.
    """
    if sys.platform == "linux" and find_spec("xdist") is not None and find_spec("jax") is None:
        monkeypatch.setattr("execnet.gateway_io.Popen2IOMaster", import_module("forked").ForkedWorker)


@pytest.fixture
def run(pytester: pytest.Pytester):
    """Run pytest in this process on one file of tests, with the simulated GPU unless told otherwise."""

    def call(source: str, *options: str, gpu: str | None = "simulated"):
        pytester.makepyfile(test_it=source)
        chosen = [] if gpu is None else [f"--gpuperf-gpu={gpu}"]
        return pytester.runpytest_inprocess("-p", "no:randomly", *chosen, *options)

    return call


@pytest.fixture
def marker_errors(pytester):
    """Run files, each with a wrong marker, in one run; return what is said of each before the first test.

    In one run, because pytest takes longer to start than to collect them all.
    """

    def call(*sources):
        pytester.makepyfile(**{f"test_{index:02}": source for index, source in enumerate(sources)})
        result = pytester.runpytest_inprocess("-p", "no:randomly", "-q", "--gpuperf-gpu=simulated")
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        said: dict[int, str] = {}
        for line in result.outlines:
            if (found := re.match(r"gpuperf: error: test_(\d+)\.py::(.*)", line)) is not None:
                said[int(found[1])] = f"{said.get(int(found[1]), '')}{found[2]}\n"
        assert [*range(len(sources))] == sorted(said), "each is listed"
        assert "failed" not in result.parseoutcomes()
        return [said[index] for index in range(len(sources))]

    return call


TWO_DEVICES = """
    import types
    import pytest
    from pytest_gpuperf.devices.simulated import SimulatedBackend

    BACKEND = SimulatedBackend(name="cupy")

    def module(name, namespace):
        found = types.ModuleType(name)
        found.__getattr__ = lambda attribute: getattr(namespace, attribute)
        return found

    numpy, cupy = module("numpy", BACKEND.cpu().xp), module("cupy", BACKEND.gpu("").xp)
    LIBRARIES = {"numpy": numpy, "cupy": cupy, "cpu": numpy, "cuda": cupy, "gpu": cupy}

    @pytest.hookimpl(optionalhook=True)
    def pytest_gpuperf_devices():
        return [BACKEND]

    @pytest.fixture(params=["numpy", "cupy"])
    def xp(request):
        return LIBRARIES[request.param]
"""
OURS = ("--gpuperf-gpu=cupy", "--gpuperf-json=r.json")


class Outcome:
    """What a run of pytest in pytest has left: its result, and the records by the tests' names."""

    def __init__(self, result, path):
        self.result = result
        self.path = path
        report = path / "r.json"
        self.written = json.loads(report.read_text(encoding="utf-8")) if report.exists() else None
        listed = self.written["records"] if self.written else []
        self.records = {record["nodeid"].removeprefix("test_it.py::"): record for record in listed}

    @property
    def statuses(self):
        return {name: record["status"] for name, record in self.records.items()}

    @property
    def endings(self):
        """Return how each test ended, as a run with -v prints it, by the tests' names."""
        return dict(re.findall(r"^test_it\.py::(\S+) ([A-Z]+)", str(self.result.stdout), re.MULTILINE))

    def speedup(self, name):
        """Return a record's speedup, near to what the devices are set to: it is 10, from 10 ms and 1 ms."""
        return pytest.approx(self.records[name]["speedup"]["value"], rel=0.01)

    def says(self, *lines):
        self.result.stdout.fnmatch_lines([f"*{line}*" for line in lines])

    def ended(self, **outcomes):
        self.result.assert_outcomes(**outcomes)


@pytest.fixture
def suite(pytester, monkeypatch):
    """Run a suite whose conftest has a CuPy of simulated time, in this process or in one of its own.

    Where it `interrupts` itself, as Control-C does, that ends the inner run alone.
    """
    if "cupy" not in sys.modules:  # else a torch that was imported here alone would be taken for the suite's
        monkeypatch.setitem(sys.modules, "cupy", ModuleType("cupy"))

    def call(source, *options, conftest="", ini="", ours=OURS, apart=False, interrupts=False):
        pytester.makeconftest(TWO_DEVICES + conftest)
        if ini is not None:
            pytester.makeini(f"[pytest]\n{ini}")
        if source is not None:
            pytester.makepyfile(test_it=f"import pytest, conftest, unittest\n{source}")
        shuffled = any("randomly" in option for option in options)
        quiet = [] if shuffled else ["-p", "no:randomly"]
        here = partial(pytester.runpytest_inprocess, no_reraise_ctrlc=interrupts)
        start = pytester.runpytest_subprocess if apart else here
        (pytester.path / "r.json").unlink(missing_ok=True)
        return Outcome(start(*quiet, *ours, *options), pytester.path)

    return call


@pytest.fixture
def lock_file(tmp_path):
    return tmp_path / "turn.lock"


@pytest.fixture
def on_hosts(pytester, lock_file):
    """Run tests on two devices with the real clock; return pytest's result and the records."""

    def call(source, *options, apart=False):
        pytester.makeconftest(REAL_TIME)
        pytester.makepyfile(test_it=source)
        start = pytester.runpytest_subprocess if apart else pytester.runpytest_inprocess
        ours = ["--gpuperf-gpu=hosts", f"--gpuperf-lock={lock_file}", "--gpuperf-json=report.json"]
        result = start("-p", "no:randomly", *ours, *options)
        report = pytester.path / "report.json"
        return result, json.loads(report.read_text("utf-8"))["records"] if report.exists() else []

    return call


@pytest.fixture
def setting(monkeypatch):
    """Set a variable of the environment; None takes it away."""

    def call(name, value):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)

    return call


@pytest.fixture
def installed(monkeypatch):
    """Let modules be installed, with these attributes, or not (None); in their names `__` is a dot."""

    def call(**modules):
        for name, attributes in modules.items():
            name = name.replace("__", ".")
            module = None
            if attributes is not None:
                module = ModuleType(name)
                vars(module).update({"__version__": "1.0", "__spec__": ModuleSpec(name, None), **attributes})
            monkeypatch.setitem(sys.modules, name, module)

    return call


@pytest.fixture
def with_cupy(installed):
    """Install a CuPy that sees some GPUs, on which a kernel may raise; return those that were waited for."""

    class CudaError(RuntimeError):
        pass

    def call(count, error=None):
        def ones(size):
            if error is not None:
                raise error
            return np.ones(size)

        def device(index):
            bus = f"0000:{index:02x}:00.0"
            return SimpleNamespace(use=lambda: None, synchronize=lambda: waited.append(index), pci_bus_id=bus)

        waited = []
        runtime = SimpleNamespace(
            CUDARuntimeError=CudaError,
            is_hip=False,
            getDeviceCount=lambda: count,
            getDeviceProperties=lambda index: {
                "name": f"GPU {index}",
                "major": 9,
                "totalGlobalMem": 1 << 37,
                "multiProcessorCount": 132,
            },
            driverGetVersion=lambda: 12040,
            runtimeGetVersion=lambda: 12090,
        )
        cuda = SimpleNamespace(
            runtime=runtime,
            driver=SimpleNamespace(CUDADriverError=CudaError),
            memory=SimpleNamespace(OutOfMemoryError=CudaError),
            Device=device,
        )
        installed(cupy={"cuda": cuda, "ones": ones})
        return waited

    return call


@pytest.fixture
def system_files(monkeypatch):
    """Let the system show these files alone, each a line or more, of what Linux has in /proc and /sys."""

    def call(files):
        def read(path):
            if path.parts[1:2] not in [("proc",), ("sys",)]:
                return real(path)
            text = files.get(path.as_posix())
            return None if text is None else f"{text}\n"

        monkeypatch.setattr(environment, "read", read)

    real = environment.read
    return call


class CudaDriver:
    """What NVIDIA's driver tells of its devices; `failing` is a function of it that returns an error."""

    def __init__(self, failing=""):
        self.failing = failing

    def cuInit(self, flags):  # noqa: N802 - NVIDIA's names, here and below
        return 3 * (self.failing == "cuInit")

    def cuDriverGetVersion(self, version):  # noqa: N802
        version._obj.value = 13000
        return 3 * (self.failing == "cuDriverGetVersion")

    def cuDeviceGet(self, device, ordinal):  # noqa: N802
        device._obj.value = 100 + ordinal  # a handle, which need not be the number
        return 101 * (self.failing == "cuDeviceGet")

    def cuDeviceGetPCIBusId(self, text, length, device):  # noqa: N802
        text.value = b"0000:%02d:00.0" % (device.value - 100)
        assert len(text.value) < length
        return 0

    def cuDeviceTotalMem_v2(self, memory, device):  # noqa: N802
        memory._obj.value = (device.value - 100 + 1) << 30
        return 2 * (self.failing == "cuDeviceTotalMem_v2")

    def cuDeviceGetAttribute(self, value, attribute, device):  # noqa: N802
        value._obj.value = {16: 132}[attribute]
        return 0


@pytest.fixture
def with_cuda_driver(monkeypatch):
    """Put a stand-in for NVIDIA's driver in place, one of whose functions may fail, or its library."""

    def call(failing=""):
        def load(name):
            if failing == "its library":
                raise OSError(f"{name}: cannot open shared object file")
            return CudaDriver(failing) if name == "libcuda.so.1" else None

        monkeypatch.setattr("ctypes.CDLL", load)

    return call


@pytest.fixture
def with_nvml(monkeypatch):
    """Put a stand-in for pynvml in place; return the bus ids that were looked up.

    `changed` are its functions by name, None for one that it lacks.
    """

    class NVMLError(Exception):
        pass

    def call(**changed):
        asked = []
        library = SimpleNamespace(
            NVMLError=NVMLError,
            NVML_CLOCK_SM=1,
            NVML_CLOCK_MEM=2,
            NVML_TEMPERATURE_GPU=0,
            nvmlInit=lambda: None,
            nvmlSystemGetDriverVersion=lambda: "580.65.06",
            nvmlDeviceGetHandleByPciBusId=lambda bus: asked.append(bus) or f"handle of {bus}",
            nvmlDeviceGetClockInfo=lambda handle, clock: {1: 1980, 2: 3201}[clock],
            nvmlDeviceGetTemperature=lambda handle, sensor: 41,
            nvmlDeviceGetPowerUsage=lambda handle: 123456,
            nvmlDeviceGetPowerManagementLimit=lambda handle: 700000,
            nvmlDeviceGetCurrentClocksEventReasons=lambda handle: 0,
            nvmlDeviceGetCurrentClocksThrottleReasons=lambda handle: 0,
        )
        vars(library).update(changed)
        for name in [name for name, function in changed.items() if function is None]:
            delattr(library, name)
        monkeypatch.setitem(sys.modules, "pynvml", library)
        return asked

    return call
