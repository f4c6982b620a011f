"""The machine: which devices it opens for a choice, or why it opens none; the simulated ones, and the kit."""

import sys
from contextlib import contextmanager
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
from cases import for_each
from msgspec.structs import replace

from pytest_gpuperf.devices import doubts
from pytest_gpuperf.devices.choice import backends
from pytest_gpuperf.devices.device_parameter import DeviceSpec
from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.devices.simulated import Clock, SimulatedBackend, SimulatedDevice
from pytest_gpuperf.model.errors import Unavailable
from pytest_gpuperf.testing import DeviceConformance


class TestSimulated(DeviceConformance):
    @pytest.fixture
    def backend(self):
        return SimulatedBackend()


class Careless(SimulatedDevice):
    """A device whose synchronize returns at once, and that does half of the rest."""

    def synchronize(self):
        pass

    def asnumpy(self, array):
        super().synchronize()
        return super().asnumpy(array)

    @contextmanager
    def observe(self):
        with super().observe() as seen:
            yield seen
        seen.memory //= 2

    def occupy(self, seconds):
        return super().occupy(seconds / 2)


class Blind(SimulatedDevice):
    """A device that takes everything for work, and shares its arrays with the host."""

    observe = HostDevice.observe
    asarray = staticmethod(np.asarray)


@for_each(
    ("device", "shows"),
    [
        (Careless, "synchronize_waits_for_submitted_work"),
        (Blind, "asarray_copies"),
        (Blind, "it_sees_its_own_work_and_no_other"),
        (Careless, "reported_memory_includes_every_new_array"),
        (Careless, "a_device_that_can_be_occupied_is_busy_for_that_long"),
    ],
)
def test_the_kit_catches_a_backend_of_less_care(device, shows):
    with pytest.raises(AssertionError):
        getattr(DeviceConformance(), f"test_{shows}")(device("gpu", clock=Clock()))


def test_every_operation_of_the_simulated_gpu_is_one_launch():
    gpu = SimulatedDevice("gpu", clock=Clock())
    array = gpu.asarray([1.0, 2.0])
    gpu.xp.fft.fft(array + 1)
    array.sort()
    assert gpu.launches == 3


def choose(choice, *extra):
    return Machine(choice, lambda: extra)


def test_a_registered_backend_is_chosen_by_its_name_and_its_gpu_is_probed_once():
    mine = SimulatedBackend(name="mine")
    assert choose("mine", mine).cpu().kind == "cpu"
    assert mine.opened == 0, "the CPU is opened without a probe"
    assert choose("mine", mine).gpu() is mine.gpu("")
    closed = SimulatedBackend(name="mine", unavailable="it is a Sunday; come back on Monday")
    devices = choose("mine", closed)
    for _ in range(3):
        with pytest.raises(Unavailable, match="Sunday"):
            devices.gpu()
    assert closed.opened == 1


@pytest.mark.usefixtures("bare")
def test_the_report_describes_the_runs_own_gpu_where_another_was_used_first():
    machine = choose("auto", SimulatedBackend(name="other"), own := SimulatedBackend(name="own"))
    own.automatic = True
    machine.gpu(DeviceSpec(kind="gpu", library="other"))
    assert machine.environment().gpu.backend == "simulated"
    own.gpu("").info = replace(own.gpu("").info, name="the run's own")
    assert machine.gpu() is own.gpu("")
    assert machine.environment().gpu.name == "the run's own"


def test_a_library_gives_back_the_memory_that_it_keeps_before_another_one_uses_its_gpu():
    first, second = (SimulatedBackend(name=name) for name in ("first", "second"))
    machine = choose("first", first, second)
    released = []
    for library in ("first", "first", "second", "second", "first"):
        machine.gpu(DeviceSpec(kind="gpu", library=library))
        released.append((first.gpu("").released, second.gpu("").released))
    assert [(0, 0), (0, 0), (1, 0), (1, 0), (1, 1)] == released
    machine.lost = "the GPU was lost in a test"
    machine.gpu(DeviceSpec(kind="gpu", library="second"))
    assert first.gpu("").released == 1, "every call of a lost device raises"


def test_none_says_that_the_gpu_was_turned_off():
    with pytest.raises(Unavailable, match="turned off by --gpuperf-gpu=none"):
        choose("none").gpu()


@pytest.fixture
def bare(installed, monkeypatch):
    """Let the libraries that `auto` tries be not installed, and those that emulate a GPU not imported."""
    installed(cupy=None, dpnp=None)
    for name in ("torch", "jax", "keras"):
        monkeypatch.delitem(sys.modules, name, raising=False)


ASKED, EMULATES = "; --gpuperf-gpu=", " emulates one"
ANY = "standin:jax.numpy" if find_spec("jax") else "simulated"


@pytest.mark.parametrize(
    ("reason", "imported", "cause"),
    [
        (r"^no GPU.*cuda13.*sycl.*--gpuperf-gpu=torch.*gpuperf devices", None, None),
        (f"^no GPU found: no driver{ASKED}{ANY}{EMULATES}; more: gpuperf devices", None, "no driver"),
        (rf"torch is imported: gpuperf_gpu = torch in .*{ASKED}torch:cpu{EMULATES}", "torch", None),
        (rf"jax is imported: .*{ASKED}jax:cpu{EMULATES}; no driver", "jax", "no driver"),
        (rf"keras is imported: .*{ASKED}keras:cpu{EMULATES}", "keras", None),
        (f"^the driver is too old{ASKED}", None, "the driver is too old"),
    ],
)
@pytest.mark.usefixtures("bare")
def test_without_a_gpu_auto_says_why_and_what_to_do(installed, reason, imported, cause):
    def fail(selector):
        raise Unavailable(cause, broken="old" in cause)

    installed(**{imported: {}} if imported else {})
    asked = SimulatedBackend(name="cupy")
    asked.automatic, asked.gpu = True, fail
    with pytest.raises(Unavailable, match=reason) as caught:
        choose("auto", *([asked] if cause else [])).gpu()
    assert len(str(caught.value)) < 230  # three lines beside a name
    with pytest.raises(Unavailable) as required:
        Machine("auto", lambda: [asked] if cause else [], required=True).gpu()
    assert "emulates" not in str(required.value)


TORCH_ON_GPU = {
    "accelerator": SimpleNamespace(
        current_accelerator=lambda: SimpleNamespace(type="cuda"), device_count=lambda: 1
    )
}
JAX_ON_GPU = {"local_devices": lambda: [SimpleNamespace(platform="gpu")]}
CHOOSES = "^auto chooses no library that replaces NumPy"


@for_each(
    ("reason", "libraries"),
    [
        (
            f"{CHOOSES}; torch sees a GPU: gpuperf_gpu = torch in .* its GPU; more: gpuperf devices$",
            ["torch"],
        ),
        (rf"{CHOOSES}; jax sees a GPU: gpuperf_gpu = jax in .* its GPU; more: gpuperf devices$", ["jax"]),
        (rf"{CHOOSES}; torch sees a GPU: .*; jax sees a GPU: ", ["torch", "jax"]),
    ],
)
@pytest.mark.usefixtures("bare")
def test_auto_says_which_imported_library_sees_a_gpu_that_it_does_not_choose(installed, reason, libraries):
    installed(torch={}, jax={})  # one that sees none is not named
    installed(**{name: {"torch": TORCH_ON_GPU, "jax": JAX_ON_GPU}[name] for name in libraries})
    with pytest.raises(Unavailable, match=reason):
        choose("auto").gpu()


@pytest.mark.usefixtures("bare")
def test_a_gpu_that_is_broken_is_told_first_though_torch_sees_one(installed):
    installed(torch=TORCH_ON_GPU)
    broken = SimulatedBackend(name="cupy")

    def fail(selector):
        raise Unavailable("the driver is too old", broken=True)

    broken.automatic, broken.gpu = True, fail
    with pytest.raises(Unavailable, match=r"^the driver is too old; torch sees a GPU: gpuperf_gpu = torch"):
        choose("auto", broken).gpu()


PAGE = r"ImportError('\n=====\nFailed to import.\n\nSee the guide.\n=====')"


@for_each(
    ("choice", "error", "reason"),
    [
        ("cupy", "ImportError('numpy was rebuilt')", "^CuPy is .* cannot be imported: numpy was rebuilt; r"),
        ("cupy", f"{PAGE} from ImportError('libx.so: cannot open shared object')", ": libx.so"),
        ("cupy", "ValueError('numpy.dtype size changed')", ": numpy.dtype size changed.*; r"),
        (
            "keras",
            "ModuleNotFoundError('No module tensorflow')",
            "module tensorflow; set KERAS_BACKEND to te",
        ),
    ],
)
def test_a_library_that_cannot_be_imported_is_broken_and_says_the_cause_below_its_page(
    monkeypatch, tmp_path, choice, error, reason
):
    monkeypatch.delitem(sys.modules, choice, raising=False)
    (tmp_path / f"{choice}.py").write_text(f"raise {error}")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(Unavailable, match=reason) as caught:
        backends()[choice].gpu("")
    assert (caught.value.broken, caught.value.missing) == (True, False)


@for_each(
    ("choice", "name", "extra"),
    [
        ("cupy", "CuPy", "cuda12"),
        ("sycl", "dpnp", "sycl"),
        ("torch", "torch", "torch"),
        ("jax", "JAX", "jax"),
        ("mlx", "MLX", "mlx"),
        ("keras", "Keras", "keras"),
    ],
)
def test_without_its_library_a_backend_names_the_extra_on_both_sides_where_both_need_it(
    installed, choice, name, extra
):
    installed(**dict.fromkeys(("cupy", "dpnp", "torch", "jax", "mlx", "keras")))
    backend = backends()[choice]
    both = [backend.cpu] if choice in ("torch", "jax", "keras") else []
    for opened in (lambda: backend.gpu(""), *both):
        with pytest.raises(Unavailable, match=rf"{name} is not installed; .*\[{extra}\]") as caught:
            opened()
        assert (caught.value.broken, caught.value.missing) == (False, True)


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
@pytest.mark.usefixtures("bare")
def test_workers_have_a_gpu_each_or_share_them_unless_one_was_chosen(expected, choice, worker, count):
    many = SimulatedBackend(name="many", count=count)
    many.automatic = True
    machine = Machine(choice, lambda: [many], worker)
    assert expected == machine.gpu().name == machine.group(1).all[0].name


def no_driver(_):
    raise RuntimeError("no driver")


def warned(_):
    raise UserWarning("the driver is too old")


@for_each(
    ("method", "answer", "told"),
    [
        ("count", lambda _: 0, None),
        ("count", no_driver, "count of one raised RuntimeError: no driver"),
        ("selectors", no_driver, "selectors of one raised RuntimeError: no driver"),
        ("selectors", lambda _: None, "selectors of one raised TypeError: "),
        ("selectors", lambda backend: backend.check("x"), None),  # the device that is opened says why
        ("selectors", warned, None),
    ],
)
def test_a_backend_that_does_not_list_its_devices_gives_every_worker_its_first_and_says_why_once(
    method, answer, told
):
    one = type("Own", (SimulatedBackend,), {method: answer})(name="one")
    machine = Machine("one", lambda: [one], 3)
    assert "simulated GPU" == machine.gpu().name == machine.group(1).all[0].name
    said = [*doubts.take()]
    assert [True] * (told is not None) == [text.startswith(f"Own.{told}") for text in said]
