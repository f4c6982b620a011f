"""The machine: which devices a choice opens, or why it opens none; the simulated ones, and the kit."""

import sys
from contextlib import contextmanager
from types import ModuleType

import numpy as np
import pytest
from cases import for_each
from msgspec.structs import replace

from pytest_gpuperf.devices import library
from pytest_gpuperf.devices.device_parameter import DeviceSpec
from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.machine import Machine, backends
from pytest_gpuperf.devices.simulated import (
    Clock,
    Injected,
    SimulatedBackend,
    SimulatedDevice,
    SimulatedDeviceLost,
    SimulatedOutOfMemory,
    Timing,
)
from pytest_gpuperf.model.errors import GpuPerfError, Unavailable
from pytest_gpuperf.testing import DeviceConformance


class TestSimulated(DeviceConformance):
    @pytest.fixture
    def backend(self):
        return SimulatedBackend()


class DoesNotWait(SimulatedDevice):
    """A device as a careless backend makes it: its synchronize returns at once."""

    def synchronize(self):
        pass

    def asnumpy(self, array):
        super().synchronize()
        return super().asnumpy(array)


class Forgetful(SimulatedDevice):
    """A device that tells half of the memory that a call took."""

    @contextmanager
    def observe(self):
        with super().observe() as seen:
            yield seen
        seen.memory //= 2


class Aliasing(HostDevice):
    def asarray(self, host):
        return host


class Blind(SimulatedDevice):
    """A device that takes everything for work."""

    observe = HostDevice.observe


class Hasty(SimulatedDevice):
    """A device that is occupied for half of the time."""

    def occupy(self, seconds):
        super().occupy(seconds / 2)


@for_each(
    ("device", "shows"),
    [
        (DoesNotWait("gpu", clock=Clock()), "synchronize_waits_for_submitted_work"),
        (Aliasing("aliasing"), "asarray_copies"),
        (Blind("gpu", clock=Clock()), "it_sees_its_own_work_and_no_other"),
        (Forgetful("gpu", clock=Clock()), "reported_memory_includes_every_new_array"),
        (Hasty("gpu", clock=Clock()), "a_device_that_can_be_occupied_is_busy_for_that_long"),
    ],
)
def test_the_kit_catches_a_backend_of_less_care(device, shows):
    with pytest.raises(AssertionError):
        getattr(DeviceConformance(), f"test_{shows}")(device)


def test_every_operation_is_one_launch():
    gpu = SimulatedDevice("gpu", clock=Clock())
    array = gpu.asarray([1.0, 2.0])
    gpu.xp.fft.fft(array + 1)
    array.sort()
    assert gpu.launches == 3


def test_every_thread_of_a_cpu_works_while_a_kernel_runs():
    cpu = SimulatedDevice("cpu", clock=Clock(), timing=Timing(kernel=2e-3, threads=4))
    cpu.launch()
    assert cpu.processor_time() == pytest.approx(8e-3)


def test_memory_is_counted_while_arrays_live():
    gpu = SimulatedDevice("gpu", clock=Clock())
    first = gpu.asarray(np.zeros(100))
    second = first + 1
    assert gpu.live_bytes == 1600
    del first, second
    assert (gpu.live_bytes, gpu.peak_bytes) == (0, 1600)


def test_too_large_an_array_is_out_of_memory_and_names_its_bytes():
    gpu = SimulatedDevice("gpu", clock=Clock(), timing=Timing(memory=1000))
    with pytest.raises(SimulatedOutOfMemory) as caught:
        gpu.asarray(np.zeros(126))
    assert gpu.fault(caught.value).requested == 1008


def test_an_injected_error_strikes_once():
    gpu = SimulatedDevice("gpu", clock=Clock(), faults=[Injected(kind="error", call=2)])
    gpu.launch()
    with pytest.raises(RuntimeError, match="launch 2"):
        gpu.launch()
    gpu.launch()


def test_a_lost_device_stays_lost():
    gpu = SimulatedDevice("gpu", clock=Clock(), faults=[Injected(kind="lost", call=1)])
    for use in (gpu.launch, gpu.synchronize, lambda: gpu.asarray([1])):
        with pytest.raises(SimulatedDeviceLost) as caught:
            use()
        assert gpu.fault(caught.value).kind == "lost"


def choose(choice, *extra):
    return Machine(choice, lambda: extra)


def test_a_registered_backend_is_chosen_by_its_name():
    mine = SimulatedBackend(name="mine")
    assert choose("mine", mine).cpu().kind == "cpu"
    assert mine.opened == 0, "the CPU is opened without a probe"
    assert choose("mine", mine).gpu() is mine.gpu("")


def test_a_gpu_is_probed_once():
    backend = SimulatedBackend(name="mine", unavailable="it is a Sunday; come back on Monday")
    devices = choose("mine", backend)
    for _ in range(3):
        with pytest.raises(Unavailable, match="Sunday"):
            devices.gpu()
    assert backend.opened == 1


@for_each(
    ("said", "choice"),
    [
        *(("available: auto, none", choice) for choice in ("cudnn", "")),
        *(("takes no", choice) for choice in ("auto:1", "none:cpu")),
        *(("is a number", choice) for choice in ("cupy:first", "simulated:2")),
        ("gpu or cpu", "sycl:fpga"),
        ("one of cuda", "torch:jax"),
        ("a number, e.g. jax:0, not 'gpu'; jax:cpu emulates a GPU", "jax:gpu"),
        *(("is a number below 3", choice) for choice in ("many:3", "many:first", "many:-1")),
        *(("expected the name of a mod", f"standin:{name}") for name in (".numpy", "a b", "a:b")),
    ],
)
def test_a_choice_that_nobody_offers_is_refused(said, choice):
    with pytest.raises(GpuPerfError, match=said):
        choose(choice, SimulatedBackend(name="many", count=3)).missing()


@for_each("library", ["torch", "jax", "keras"])
def test_a_library_that_is_to_emulate_and_is_not_installed_is_refused_at_start(monkeypatch, library):
    monkeypatch.setattr("pytest_gpuperf.devices.stand_in.find_spec", lambda _: None)
    remedy = rf"{library}, which emulates a GPU, is not installed; install pytest-gpuperf\[{library}\]"
    with pytest.raises(GpuPerfError, match=remedy):
        choose(f"{library}:cpu").missing()
    with pytest.raises(GpuPerfError, match="nosuch, which emulates a GPU, is not installed; install it"):
        choose("standin:nosuch").missing()


def test_the_report_describes_the_runs_own_gpu_where_another_was_used_first(bare):
    bare()
    machine = choose("auto", SimulatedBackend(name="other"), own := SimulatedBackend(name="own"))
    own.automatic = True
    machine.gpu(DeviceSpec(kind="gpu", library="other"))
    assert machine.environment().gpu.backend == "simulated"
    own.gpu("").info = replace(own.gpu("").info, name="the run's own")
    assert machine.gpu() is own.gpu("")
    assert machine.environment().gpu.name == "the run's own"


def test_none_says_that_the_gpu_was_turned_off():
    with pytest.raises(Unavailable, match="turned off by --gpuperf-gpu=none"):
        choose("none").gpu()


@pytest.fixture
def bare(monkeypatch):
    """Let no library be installed or imported, but those of these names."""

    def call(*imported, installed=()):
        for name in ("torch", "jax", "keras", "cupy", "dpnp"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        for name in imported:
            monkeypatch.setitem(sys.modules, name, ModuleType(name))  # it has no __spec__
        for room in ("library", "sycl", "machine"):
            found = {name: object() for name in installed}
            monkeypatch.setattr(f"pytest_gpuperf.devices.{room}.find_spec", found.get)

    return call


ASKED, EMULATES = "; --gpuperf-gpu=", " emulates one"


@for_each(
    ("reason", "imported", "installed", "cause"),
    [
        (r"^no GPU.*cuda13.*sycl.*--gpuperf-gpu=torch.*gpuperf devices", [], [], None),
        (f"^no GPU found: no driver{ASKED}simulated{EMULATES}; more: gpuperf devices", [], [], "no driver"),
        (f"no driver{ASKED}standin:jax.numpy{EMULATES}; more: ", [], ["jax"], "no driver"),
        (rf"torch is imported: gpuperf_gpu = torch in .*{ASKED}torch:cpu{EMULATES}", ["torch"], [], None),
        (rf"jax is imported: .*{ASKED}jax:cpu{EMULATES}; no driver", ["jax"], [], "no driver"),
        (rf"keras is imported: .*{ASKED}keras:cpu{EMULATES}", ["keras"], ["jax"], None),
        (f"^the driver is too old{ASKED}", [], [], "the driver is too old"),
    ],
)
def test_without_a_gpu_auto_says_why_and_what_to_do(bare, reason, imported, installed, cause):
    def fail(selector):
        raise Unavailable(cause, broken="old" in cause)

    bare(*imported, installed=installed)
    asked = SimulatedBackend(name="cupy")
    asked.automatic, asked.gpu = True, fail
    with pytest.raises(Unavailable, match=reason) as caught:
        choose("auto", *([asked] if cause else [])).gpu()
    assert len(str(caught.value)) < 230  # three lines beside a name


PAGE = "\n=====\nFailed to import.\n\nSee the guide.\n====="


@for_each(
    ("choice", "error", "raised_from", "reason"),
    [
        (
            "cupy",
            ImportError("numpy was rebuilt"),
            None,
            "^CuPy is .* cannot be imported: numpy was rebuilt; r",
        ),
        ("cupy", ImportError(PAGE), ImportError("libx.so: cannot open shared object"), ": libx.so"),
        ("cupy", ValueError("numpy.dtype size changed"), None, ": numpy.dtype size changed.*; r"),
        (
            "keras",
            ModuleNotFoundError("No module 'tensorflow'"),
            None,
            "'tensorflow'; set KERAS_BACKEND to te",
        ),
    ],
)
def test_a_library_that_cannot_be_imported_is_broken_and_says_the_cause_below_its_page(
    monkeypatch, choice, error, raised_from, reason
):
    def fail(module):
        raise error from raised_from

    monkeypatch.setattr(library, "find_spec", lambda name: object())
    monkeypatch.setattr(library, "import_module", fail)
    with pytest.raises(Unavailable, match=reason) as caught:
        backends()[choice].gpu("")
    assert (caught.value.broken, caught.value.missing) == (True, False)


@for_each(
    ("choice", "name", "extra", "both"),
    [
        ("cupy", "CuPy", "cuda12", False),
        ("sycl", "dpnp", "sycl", False),
        ("torch", "torch", "torch", True),
        ("jax", "JAX", "jax", True),
        ("mlx", "MLX", "mlx", False),
        ("keras", "Keras", "keras", True),
    ],
)
def test_without_its_library_a_backend_names_the_extra_on_both_sides_where_both_need_it(
    bare, choice, name, extra, both
):
    bare()
    backend = backends()[choice]
    for opened in (lambda: backend.gpu(""), backend.cpu) if both else (lambda: choose(choice).gpu(),):
        with pytest.raises(Unavailable, match=rf"{name} is not installed; install pytest-gpuperf\[{extra}\]"):
            opened()
    with pytest.raises(Unavailable) as caught:
        backend.gpu("")
    assert (caught.value.broken, caught.value.missing) == (False, True)


def test_auto_takes_only_what_compares_with_numpy():
    automatic = {backend.name for backend in backends().values() if backend.automatic}
    assert automatic == {"cupy", "sycl"}


@for_each(
    ("expected", "choice", "worker", "count"),
    [
        ("simulated GPU", "many", None, 3),
        ("simulated GPU", "many", 0, 3),
        ("simulated GPU 2", "many", 2, 3),
        ("simulated GPU 1", "many", 4, 3),
        ("simulated GPU", "many", 5, 1),
        ("simulated GPU 1", "many:1", 2, 3),
        ("simulated GPU", "many:0", 2, 3),
        ("simulated GPU 2", "auto", 2, 3),
    ],
)
def test_workers_have_a_gpu_each_or_share_them_unless_one_was_chosen(bare, expected, choice, worker, count):
    bare()
    many = SimulatedBackend(name="many", count=count)
    many.automatic = True
    machine = Machine(choice, lambda: [many], worker)
    assert expected == machine.gpu().name == machine.group(1).all[0].name


def test_a_backend_that_does_not_count_its_devices_gives_every_worker_its_first():
    one = SimulatedBackend(name="one")
    for count in (None, lambda: 0, lambda: 1 // 0):
        one.count = count
        assert "simulated GPU" == Machine("one", lambda: [one], 3).gpu().name
