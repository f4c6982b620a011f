"""The devices: each backend runs the conformance kit; the choice among them says why there is none."""

import sys
from contextlib import contextmanager
from types import ModuleType

import numpy as np
import pytest
from cases import for_each

from pytest_gpuperf.devices import library
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


def test_the_kit_catches_a_synchronize_that_does_not_wait():
    careless = DoesNotWait("gpu", clock=Clock(), timing=Timing(kernel=1e-2))
    with pytest.raises(AssertionError, match="synchronize returned before"):
        DeviceConformance().test_synchronize_waits_for_submitted_work(careless)


def test_the_kit_catches_an_asarray_that_does_not_copy():
    class Aliasing(HostDevice):
        def asarray(self, host):
            return host

    with pytest.raises(AssertionError):
        DeviceConformance().test_asarray_copies(Aliasing("aliasing"))


def test_the_kit_catches_a_device_that_sees_no_work():
    blind = SimulatedDevice("gpu", clock=Clock())
    blind.observe = HostDevice("host").observe  # sees work in everything
    with pytest.raises(AssertionError):
        DeviceConformance().test_it_sees_its_own_work_and_no_other(blind)


def test_the_kit_catches_a_device_that_tells_too_little_memory():
    forgetful = SimulatedDevice("gpu", clock=Clock())
    watch = forgetful.observe

    @contextmanager
    def observe():
        with watch() as seen:
            yield seen
        seen.memory = seen.memory // 2

    forgetful.observe = observe
    with pytest.raises(AssertionError):
        DeviceConformance().test_reported_memory_includes_every_new_array(forgetful)


@for_each("wrong", [0.5, 0.0])
def test_the_kit_catches_a_device_that_is_not_occupied_for_as_long_as_asked(wrong):
    hasty = SimulatedDevice("gpu", clock=Clock())
    occupy = hasty.occupy
    hasty.occupy = lambda seconds: occupy(wrong * seconds)
    with pytest.raises(AssertionError):
        DeviceConformance().test_a_device_that_can_be_occupied_is_busy_for_that_long(hasty)


def test_a_launch_returns_at_once_and_synchronize_waits_for_its_end():
    clock = Clock()
    gpu = SimulatedDevice("gpu", clock=clock, timing=Timing(launch=1e-6))
    gpu.launch(0.5)
    assert clock() == pytest.approx(1e-6)
    gpu.synchronize()
    assert clock() == pytest.approx(0.500001)
    SimulatedDevice("cpu", clock=clock).launch(0.5)
    assert clock() == pytest.approx(1.000001), "a simulated CPU works while it is called"


def test_streams_run_beside_each_other_and_synchronize_waits_for_all():
    clock = Clock()
    gpu = SimulatedDevice("gpu", clock=clock)
    gpu.launch(0.2)
    gpu.launch(0.5, stream=1)
    gpu.launch(0.2)
    gpu.synchronize()
    assert clock() == pytest.approx(0.5)


def test_copies_take_their_bytes_over_the_bandwidth():
    clock = Clock()
    gpu = SimulatedDevice("gpu", clock=clock, timing=Timing(bandwidth=1e6))
    array = gpu.asarray(np.zeros(125))
    assert clock() == pytest.approx(1e-3)
    gpu.asnumpy(array)
    assert clock() == pytest.approx(2e-3)


def test_every_operation_is_one_launch():
    gpu = SimulatedDevice("gpu", clock=Clock())
    array = gpu.asarray([1.0, 2.0])
    gpu.xp.fft.fft(array + 1)
    array.sort()
    assert gpu.launches == 3


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


def called(name):
    return backends()[name]


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
    ],
)
def test_a_choice_that_nobody_offers_is_refused(said, choice):
    with pytest.raises(GpuPerfError, match=said):
        choose(choice).missing()


@for_each("library", ["torch", "jax", "keras"])
def test_a_library_that_is_to_emulate_and_is_not_installed_is_refused_at_start(monkeypatch, library):
    monkeypatch.setattr("pytest_gpuperf.devices.stand_in.find_spec", lambda _: None)
    remedy = rf"{library}, which emulates a GPU, is not installed; install pytest-gpuperf\[{library}\]"
    with pytest.raises(GpuPerfError, match=remedy):
        choose(f"{library}:cpu").missing()
    with pytest.raises(GpuPerfError, match="nosuch, which emulates a GPU, is not installed; install it"):
        choose("standin:nosuch").missing()


def test_none_says_that_the_gpu_was_turned_off():
    with pytest.raises(Unavailable, match="turned off by --gpuperf-gpu=none"):
        choose("none").gpu()


def test_without_any_library_auto_says_which_extras_there_are(monkeypatch):
    for name in ("cupy", "dpnp"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("torch", "jax", "keras"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr("pytest_gpuperf.devices.library.find_spec", lambda _: None)
    with pytest.raises(Unavailable, match=r"no GPU.*cuda13.*sycl.*--gpuperf-gpu=torch.*gpuperf devices"):
        choose("auto").gpu()


@for_each(("spec", "choice"), [(object(), "standin:jax.numpy"), (None, "simulated")])
def test_without_a_gpu_it_is_said_how_to_try_it_emulated(monkeypatch, spec, choice):
    asked = SimulatedBackend(name="cupy", unavailable="no driver")
    asked.automatic = True
    for name in ("torch", "jax", "keras"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "dpnp", None)
    monkeypatch.setattr("pytest_gpuperf.devices.machine.find_spec", lambda _: spec)
    emulated = rf"emulated: --gpuperf-gpu={choice}; more: gpuperf devices"
    with pytest.raises(Unavailable, match=rf"^no GPU found: .*no driver; {emulated}") as caught:
        choose("auto", asked).gpu()
    assert len(str(caught.value)) < 230  # three lines beside a name


def test_a_library_that_a_suite_has_replaced_is_asked_for_nothing(monkeypatch):
    for name in ("torch", "keras"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "jax", ModuleType("jax"))  # it has no __spec__
    with pytest.raises(Unavailable, match="emulated: --gpuperf-gpu=jax:cpu"):
        choose("auto").gpu()


def test_where_a_gpu_is_broken_that_comes_first(monkeypatch):
    def fail(selector):
        raise Unavailable("the driver is too old", broken=True)

    asked = SimulatedBackend(name="cupy")
    asked.automatic, asked.gpu = True, fail
    for name in ("torch", "jax", "keras"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "dpnp", None)
    with pytest.raises(Unavailable, match=r"^the driver is too old.*emulated: --gpuperf-gpu="):
        choose("auto", asked).gpu()


PAGE = "\n=====\nFailed to import.\n\nSee the guide.\n====="


@for_each(
    ("error", "raised_from", "cause"),
    [
        (ImportError("numpy was rebuilt"), None, "numpy was rebuilt"),
        (ImportError(PAGE), ImportError("libx.so: cannot open shared object"), "libx.so"),
        (ValueError("numpy.dtype size changed"), None, "numpy.dtype size changed"),
    ],
)
def test_a_library_that_cannot_be_imported_is_broken_and_says_the_cause_below_its_page(
    monkeypatch, error, raised_from, cause
):
    def fail(module):
        raise error from raised_from

    monkeypatch.setattr(library, "find_spec", lambda name: object())
    monkeypatch.setattr(library, "import_module", fail)
    with pytest.raises(
        Unavailable, match=f"^CuPy is installed but cannot be imported: {cause}.*; r"
    ) as caught:
        library.import_library("cupy", "CuPy", "install it")
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
    monkeypatch, choice, name, extra, both
):
    monkeypatch.setattr("pytest_gpuperf.devices.library.find_spec", lambda _: None)
    monkeypatch.setattr("pytest_gpuperf.devices.sycl.find_spec", lambda _: None)
    backend = called(choice)
    for opened in (lambda: backend.gpu(""), backend.cpu) if both else (lambda: choose(choice).gpu(),):
        with pytest.raises(Unavailable, match=rf"{name} is not installed; install pytest-gpuperf\[{extra}\]"):
            opened()
    with pytest.raises(Unavailable) as caught:
        backend.gpu("")
    assert (caught.value.broken, caught.value.missing) == (False, True)


def test_keras_without_anything_to_run_on_says_what_to_set(monkeypatch):
    def fail(module):
        raise ModuleNotFoundError("No module named 'tensorflow'")

    monkeypatch.setattr(library, "find_spec", lambda name: object())
    monkeypatch.setattr(library, "import_module", fail)
    with pytest.raises(
        Unavailable, match=r"No module named 'tensorflow'; set KERAS_BACKEND to tensorflow, torch"
    ):
        called("keras").cpu()


def test_auto_takes_the_first_backend_that_works(monkeypatch):
    monkeypatch.setattr("pytest_gpuperf.devices.library.find_spec", lambda _: None)
    mine = SimulatedBackend(name="mine")
    mine.automatic = True
    assert choose("auto", mine).gpu() is mine.gpu("")


@pytest.mark.parametrize("name", ["torch", "jax", "keras"])
def test_auto_says_how_to_choose_a_library_that_the_suite_has_imported(monkeypatch, name):
    for imported in ("torch", "jax", "keras"):
        monkeypatch.delitem(sys.modules, imported, raising=False)
    monkeypatch.setattr("pytest_gpuperf.devices.library.find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        Unavailable, match=rf": {name} is imported: gpuperf_gpu = {name} in the ini file compares"
    ):
        choose("auto").gpu()


def test_auto_takes_only_what_compares_with_numpy():
    automatic = {backend.name for backend in backends().values() if backend.automatic}
    assert automatic == {"cupy", "sycl"}


def test_opening_the_numpy_side_imports_no_gpu_library():
    before = set(sys.modules)
    choose("auto").cpu()
    assert not {"cupy", "dpnp", "torch", "jax", "keras", "mlx"} & (set(sys.modules) - before)


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
def test_workers_have_a_gpu_each_or_share_them_unless_one_was_chosen(
    monkeypatch, expected, choice, worker, count
):
    monkeypatch.setattr("pytest_gpuperf.devices.library.find_spec", lambda _: None)
    many = SimulatedBackend(name="many", count=count)
    many.automatic = True
    assert expected == Machine(choice, lambda: [many], worker).gpu().name


def test_a_backend_that_does_not_count_its_devices_gives_every_worker_its_first():
    one = SimulatedBackend(name="one")
    for count in (None, lambda: 0, lambda: 1 // 0):
        one.count = count
        assert "simulated GPU" == Machine("one", lambda: [one], 3).gpu().name


@for_each("choice", ["many:3", "many:first", "many:-1"])
def test_a_number_beyond_the_last_device_is_refused(choice):
    with pytest.raises(GpuPerfError, match="is a number below 3"):
        choose(choice, SimulatedBackend(name="many", count=3)).missing()


@for_each("choice", ["standin:.numpy", "standin:a b", "standin:a:b"])
def test_a_stand_in_that_is_no_module_is_refused_at_once(choice):
    with pytest.raises(GpuPerfError, match="standin: expected the name of a module"):
        Machine(choice).missing()
