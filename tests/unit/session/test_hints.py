"""Hints: what a test's source shows that its author may not have meant, and what an error does."""

from types import SimpleNamespace

from cases import for_each

from pytest_gpuperf.session.hints import hint_on_device

SOURCE = """
from functools import partial
import numpy as np
from numpy.testing import assert_array_equal

pytestmark = pytest.mark.speedup

def register(function):
    function()

def test_forgets_a_named_function(device):
    a = device.xp.ones(3)
    def work(): return a + a

def test_forgets_a_lambda_with_a_name(device):
    a = device.xp.ones(3)
    work = lambda: a + a

def test_forgets_a_lambda(device):
    a = device.xp.ones(3)
    lambda: a + a

def test_calls_its_function(device):
    def work(): return device.xp.ones(3)
    work()
    key = lambda value: value
    sorted([2, 1], key=key)

def test_registers_its_function(device):
    @register
    def work(): return device.xp.ones(3)

def test_makes_a_class(device):
    class Model:
        def forward(self, values): return device.xp.fft.fft(values)
        def __call__(self, values): return self.forward(values)
    Model()(device.xp.ones(3))

def test_reads_its_names_at_once(device):
    def work(): return device.xp.ones(3)
    dict(**locals())["work"]()

def test_returns_a_value_of_its_set_up(device):
    a = device.xp.ones(3)
    return a + a

def test_returns_a_value_alone(device):
    return device.xp.fft.fft(device.xp.ones(3))

def test_only_works(device):
    device.xp.fft.fft(device.xp.ones(4096, dtype=np.float32))

def test_asserts_with_numpys_functions(device):
    np.testing.assert_allclose(device.xp.ones(3), 1)

def test_asserts_with_a_function(device):
    assert_array_equal(device.xp.ones(3), 1)

def test_makes_a_reference(device):
    device.xp.fft.fft(device.xp.ones(3))
    np.fft.fft(np.ones(3))

def test_uploads(device):
    device.asarray([1.0, 2.0]) + 1

def test_from_nested_blocks(device):
    for _ in range(3):
        with pytest.MonkeyPatch.context() as first, pytest.MonkeyPatch.context():
            if first:
                with pytest.MonkeyPatch.context():
                    return lambda: device.xp.ones(3)

def test_patches_for_a_device(device, monkeypatch):
    monkeypatch.setattr(conftest, "mine", device.xp, raising=False)
    return lambda: device.xp.ones(3)

def test_patches_by_a_name(device, monkeypatch):
    mine = device.xp
    monkeypatch.setattr(conftest, "mine", value=mine, raising=False)
    return lambda: device.xp.ones(3)

def test_patches_twice(device, monkeypatch):
    monkeypatch.setenv("MINE", device.name)
    monkeypatch.setattr(conftest, "mine", device.xp, raising=False)
    monkeypatch.setattr(conftest, "its", device.kind, raising=False)
    return lambda: device.xp.ones(3)

def test_patches_alike(device, monkeypatch):
    monkeypatch.setenv("MINE", "1")
    monkeypatch.setattr(conftest, "mine", np, raising=False)
    return lambda: device.xp.ones(3)

def test_patches_in_its_call(device, monkeypatch):
    def work():
        monkeypatch.setattr(conftest, "mine", device.xp, raising=False)
        return conftest.mine.ones(3)
    return work

def test_patches_on_one_device(cpu, monkeypatch):
    monkeypatch.setattr(conftest, "mine", cpu.xp, raising=False)
    return lambda: cpu.xp.ones(3)

@pytest.fixture
def patched(device, monkeypatch):
    monkeypatch.setattr(conftest, "mine", device.xp, raising=False)

def test_patches_in_a_fixture(device, patched):
    return lambda: conftest.mine.ones(3)

def test_from_no_block(device):
    with pytest.MonkeyPatch.context():
        if device is None:
            return None
    def work():
        with pytest.MonkeyPatch.context():
            return device.xp.ones(3)
    return work

class TestMethods:
    def test_asserts(self, device):
        a = device.xp.ones(3)
        assert len(a + a) == 3
"""
BLOCK = "`with pytest.MonkeyPatch.context() as first, pytest.MonkeyPatch.context():` has ended when the timed"
HINTS = {
    "the body makes `work`, and neither calls nor returns it; ": "forgets_a_named_function "
    "forgets_a_lambda_with_a_name",
    "the body makes a lambda, and neither calls nor returns it; ": "forgets_a_lambda",
    "the whole body is timed, including set-up, assertions, NumPy calls or uploads in it; ": "asserts "
    "uploads returns_a_value_of_its_set_up asserts_with_numpys_functions asserts_with_a_function "
    "makes_a_reference",
    BLOCK: "from_nested_blocks",
    "`monkeypatch.setattr(...)` in the body: until the test ends, ": "patches_for_a_device patches_by_a_name",
    "`monkeypatch.setenv(...)` and `monkeypatch.setattr(...)` in the body: until": "patches_twice",
    "": "calls_its_function registers_its_function makes_a_class reads_its_names_at_once only_works "
    "returns_a_value_alone from_no_block patches_alike patches_in_its_call "
    "patches_in_a_fixture[cpu] patches_in_a_fixture[gpu] patches_on_one_device",
}


def test_a_body_shows_what_is_timed_with_its_work(suite):
    found = suite(SOURCE)
    expected = {name: hint for hint, names in HINTS.items() for name in names.split()}
    records = {name.rpartition("test_")[2]: record for name, record in found.records.items()}
    assert expected.keys() == records.keys()
    for name, hint in expected.items():
        said = [note["text"] for note in records[name]["notes"] if note["code"] == "check_the_test"]
        assert [True] * bool(hint) == [text.startswith(hint) for text in said], (name, said)


@for_each(
    ("text", "backend", "is_said"),
    [
        ("Found no NVIDIA driver on your system. Please check that", "torch", True),
        ("Torch not compiled with CUDA enabled", "torch", True),
        ("CUDA error: CUDA driver version is insufficient for CUDA runtime version", "torch", True),
        ("No CUDA GPUs are available", "torch", True),
        ("PyTorch is not linked with support for mps devices", "torch", True),
        ("Unknown backend: 'gpu' requested, but no platforms that are instances of gpu are", "jax", True),
        ("Unknown backend cuda. Available backends are ['cpu']", "jax", True),
        ("PyTorch was not compiled with flash attention", "torch", False),
    ],
)
def test_a_device_that_the_library_lacks_is_told_to_be_device_native(text, backend, is_said):
    hint = hint_on_device(RuntimeError(text), SimpleNamespace(backend=backend))
    assert is_said is (hint is not None and "use device.native in place of a device by name" in hint)


@for_each(
    ("library", "text", "backend"),
    [
        ("torch", "Found no NVIDIA driver on your system. Please check that", "numpy"),
        ("torch", "Torch not compiled with CUDA enabled", "jax"),
        ("jax", "Unknown backend: 'gpu' requested, but no platforms that are instances of gpu are", "numpy"),
        ("jax", "Unknown backend cuda. Available backends are ['cpu']", "torch"),
    ],
)
def test_where_another_librarys_device_is_lacking_the_hint_names_its_line_of_the_ini_file(
    library, text, backend
):
    hint = hint_on_device(RuntimeError(text), SimpleNamespace(backend=backend))
    assert f"no such device is here: choose gpuperf_gpu = {library} in the ini file" in hint
    assert "use device.native, of the fixture device" in hint


def test_what_a_test_makes_in_float64_on_apples_gpus_is_told_to_be_float32():
    said = "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64."
    hint = hint_on_device(TypeError(said), SimpleNamespace(backend="torch"))
    assert "torch has no float64 on Apple's GPUs: use float32 on both devices" == hint
