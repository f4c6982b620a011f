"""Tests that compute with torch and JAX themselves: skipped without a GPU, timed on an emulated one."""

import json
import re
import sys
from pathlib import Path

import pytest

# Here, and not in an inner run, which would forget them: compiled modules cannot be imported twice.
torch = pytest.importorskip("torch", reason="CI's second environment has it")
jax = pytest.importorskip("jax", reason="CI's second environment has it")
# To compile registers what no process can register twice.
torch.compile(torch.neg, backend="aot_eager")(torch.ones(1))

TORCH = """
import pytest, torch
from torch import nn

def network(device):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).to(device.native)

def data(device):
    torch.manual_seed(1)
    return torch.randn(128, 64).to(device.native)

@pytest.mark.speedup(max=100)
def test_network(device):
    model, x = network(device), data(device)
    return lambda: model(x)

@pytest.mark.speedup
def test_distribution(device):
    model, x = network(device), data(device)
    return lambda: torch.distributions.Categorical(logits=model(x))
"""
JAX = """
import jax, jax.numpy as jnp, numpy as np, pytest

W = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
X = np.random.default_rng(1).normal(size=(128, 64)).astype(np.float32)

@jax.tree_util.register_pytree_node_class
class Linear:
    def __init__(self, w, b, act=jnp.tanh): self.w, self.b, self.act = w, b, act
    def __call__(self, x): return self.act(x @ self.w + self.b)
    def tree_flatten(self): return (self.w, self.b), self.act
    @classmethod
    def tree_unflatten(cls, aux, kids): return cls(*kids, aux)

def loss(m, x): return jnp.mean(m(x) ** 2)

@jax.jit
def sgd(m, x):
    v, g = jax.value_and_grad(loss)(m, x)
    return jax.tree.map(lambda a, b: a - 0.1 * b, m, g), v

@pytest.mark.speedup(max=100)
def test_product(device):
    product = jax.jit(lambda x: x @ x.T)
    x = device.asarray(X)
    return lambda: product(x)

@pytest.mark.speedup(check=False)
def test_keys(device):
    key = jax.device_put(jax.random.key(0), device.native)
    split = jax.jit(jax.random.split)
    return lambda: split(key)

@pytest.mark.speedup
def test_carried(device, gpuperf):
    x = device.asarray(X)
    first = Linear(device.asarray(W), device.asarray(np.zeros(64, np.float32)))
    state = {"m": first}
    def step():
        state["m"], v = sgd(state["m"], x)
        return state["m"], v
    def restore(): state["m"] = first
    return gpuperf.workload(step, reset=restore)
"""
SUITES = {"torch": TORCH, "jax": JAX}
COUNTS = {"torch": 2, "jax": 3}  # of their tests; training is in the guides
GUIDES = Path(__file__).parents[2] / "docs" / "guides"


@pytest.fixture(params=SUITES)
def library(request, monkeypatch):
    """Name a library; the others seem not to be imported, as in a suite of one library."""
    for other in {*SUITES, "keras"} - {request.param}:  # Keras would import its own backend again
        monkeypatch.delitem(sys.modules, other, raising=other != "keras")
    return request.param


@pytest.fixture
def ended(run, pytester):
    """Run a suite; return pytest's result and the records by the tests' names."""

    def call(source, gpu, *options):
        result = run(source, "--gpuperf-json=r.json", "--gpuperf-max-time=3", "-Werror", *options, gpu=gpu)
        listed = json.loads((pytester.path / "r.json").read_text(encoding="utf-8"))["records"]
        return result, {record["nodeid"].partition("::test_")[2]: record for record in listed}

    return call


SOON = ("--gpuperf-max-time=0.2", "--gpuperf-lock=none")  # where what a CPU takes is of no matter
OFF = "the GPU is turned off by --gpuperf-gpu=none; leave the option out to use it"


@pytest.mark.parametrize("gpu", [None, "none", "the library's"])
def test_without_a_gpu_they_are_skipped_and_the_line_that_chooses_their_library_for_good_is_said(
    ended, library, gpu
):
    result, records = ended(SUITES[library], library if gpu == "the library's" else gpu, *SOON)
    result.assert_outcomes(skipped=COUNTS[library])
    assert {("skipped", "no_gpu")} == {(each["status"], each["reason_code"]) for each in records.values()}
    reason = next(iter(records.values()))["reason"]
    unseen = ", so that its calls were not looked at" if library == "jax" else ""
    if gpu is None:
        assert reason.startswith(
            f"no GPU chosen for {library}: gpuperf_gpu = {library} in the ini file (keras for a test of "
            f"Keras) compares its CPU and its GPU; the test computes with {library}{unseen}; without a GPU, "
            f"--gpuperf-gpu={library}:cpu emulates one"
        )
    assert gpu != "none" or OFF == reason, "and nothing else is the reason"


OF_ONE_DEVICE = """
import jax.numpy as jnp, numpy as np, pytest, torch

@pytest.fixture
def ones(device):
    return jnp.ones(10)

@pytest.mark.speedup(min=2)
def test_fixture(ones):
    return lambda: ones + 1

@pytest.mark.speedup(min=2)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_parameter(device):
    return lambda: jnp.ones(10) + 1

@pytest.mark.speedup
def test_cpu_alone(cpu):
    return lambda: jnp.ones(10) + 1

@pytest.mark.speedup
def test_any_value(device):
    return lambda: (1.0, np.float64(2), torch.ones(2))
"""


@pytest.mark.parametrize("gpu", [None, "none", "torch"])
def test_variants_that_compute_with_jax_have_no_result_without_a_gpu_too(ended, gpu):
    result, records = ended(OF_ONE_DEVICE, gpu, *SOON)
    result.assert_outcomes(passed=3, skipped=3)  # those of the CPU have run, as without the marker
    assert {"skipped"} == {record["status"] for record in records.values()}
    if gpu is None:
        assert records["any_value"]["reason"].startswith(
            "no GPU chosen for torch: gpuperf_gpu = torch in the ini"
        )


BESIDE = """
import pytest, torch

@pytest.mark.speedup(min=1e-9)
@pytest.mark.parametrize("factor", [1, 2])
def test_dense(device, factor):
    ones = torch.ones(4) * (factor if device.kind == "gpu" else 1)
    return lambda: ones + 1

@pytest.mark.speedup(min=1e-9)
def test_sparse(device):
    return lambda: torch.eye(10).to_sparse() * 2

@pytest.mark.speedup(min=1e-9, check=False)
def test_unchecked(device):
    return lambda: torch.eye(10).to_sparse() * 2
"""


def test_beside_another_library_tensors_are_compared_where_they_are_dense(ended):
    _, records = ended(BESIDE, "standin:jax.numpy", "-Wdefault", "--gpuperf-max-time=30")
    ends = {
        name: (each["status"], each["check"] and each["check"]["agreed"]) for name, each in records.items()
    }
    assert (("passed", True), ("failed", False)) == (ends["dense[1]"], ends["dense[2]"])
    assert "which can be neither compared nor copied; return dense arrays" in records["sparse"]["reason"]
    assert "passed" == records["unchecked"]["status"]


@pytest.mark.parametrize("ones", ["torch.ones", "jax.numpy.ones"])
def test_a_body_that_raises_is_red_without_a_gpu(ended, ones):
    source = "import jax, pytest, torch\n\n@pytest.mark.speedup\ndef test_it(device):\n"
    result, records = ended(f"{source}    return lambda: {ones}(2) @ {ones}(3)", None)
    result.assert_outcomes(failed=1)
    assert "error" == records["it"]["status"]


COMPILED = """
@pytest.mark.speedup
def test_compiled(device):
    model, x = torch.compile(network(device), backend="aot_eager"), data(device)
    return lambda: model(x)
"""
NUMPYS = """
import itertools, numpy as np, pytest
{imports}

pytestmark = pytest.mark.speedup(min=0.01)
HOST = np.random.default_rng(0).random((64, 64), dtype=np.float32)

def estimate(size):
    return float((np.random.default_rng(0).random(size) ** 2 < 0.5).mean())

def test_numpys_function(device):
    a = device.asarray(HOST)
    return lambda: np.sort(a, axis=0)

def test_no_device(device):
    return lambda: estimate(1000)

def test_xp(device, xp):
    return lambda: float(xp.ones(5).sum())

def test_library(device):
    return lambda: float({ones}(5).sum())

def test_device(device):
    return lambda: float(device.asarray(HOST).sum())

def test_copy(device):
    a = device.asarray(HOST)
    return lambda: np.asarray(a + a)

def test_array(device):
    a = device.asarray(HOST)
    return lambda: a + a

def test_download(device):
    a = device.asarray(HOST)
    return lambda: device.asnumpy(a + a)

def test_iterator(device):
    batches = itertools.cycle([device.asarray(HOST)])
    return lambda: float(next(batches).sum())
"""
ON_ITS_CPU = ("--gpuperf-fail=nothing", "-Wdefault")


def test_an_emulated_gpu_is_compared_with_the_library_itself(ended, library):
    # In one inner run alone: torch compiles by what no process can register twice.
    source = TORCH + COMPILED if library == "torch" else JAX
    result, records = ended(source, f"{library}:cpu", *ON_ITS_CPU)
    result.assert_outcomes(passed=COUNTS[library] + (library == "torch"))
    for name, record in records.items():
        assert [library, library] == [record[kind]["device"]["backend"] for kind in ("cpu", "gpu")], name
        assert [False, True] == [record[kind]["device"]["emulated"] for kind in ("cpu", "gpu")]
        assert record["speedup"] is not None, name
        assert record["speedup"]["value"] > 0
        assert record["check"]["agreed"] is (True if record["demand"]["check"] else None), name


@pytest.mark.parametrize(
    ("library", "imports", "ones"),
    [("torch", "import torch", "torch.ones"), ("jax", "from jax import numpy as jnp", "jnp.ones")],
)
def test_work_that_would_not_reach_a_gpu_is_noted_on_an_emulated_one(ended, library, imports, ones):
    _, records = ended(NUMPYS.format(imports=imports, ones=ones), f"{library}:cpu", *ON_ITS_CPU)
    noted = {
        name: note["text"]
        for name, record in records.items()
        for note in record["notes"]
        if note["code"] == "not_on_device"
    }
    assert noted.keys() == {"numpys_function", "no_device"}
    assert f"the result on {library} on the CPU is an array of NumPy" in noted["numpys_function"]
    assert f"the call refers to nothing on {library} on the CPU: a GPU would be" in noted["no_device"]
    assert "idle, or be given the arrays anew in each call" in noted["no_device"]


def test_beside_another_library_jaxs_results_are_refused_checked_or_not(ended):
    result, records = ended(JAX, "standin:jax.numpy")
    result.assert_outcomes(failed=1, skipped=2)  # with a limit in the marker, and without
    for record in records.values():
        assert "which numpy does not wait for; compare jax with itself: gpuperf_gpu = jax" in record["reason"]


REFUSED = """
import jax, numpy as np, pytest, torch

pytestmark = pytest.mark.speedup

def test_module(device):
    return lambda: torch.nn.Linear(2, 2).to(device)

def test_factory(device):
    return lambda: torch.ones(2, device=device)

def test_array(device):
    return lambda: torch.nn.functional.relu(device.asarray(np.ones((2, 2), np.float32)))

def test_native(device):
    return lambda: torch.ones(2, device=device.native)

def test_put(device):
    return lambda: jax.device_put(1.0, device)

def test_made(device):
    return lambda: jax.numpy.ones(2, device=device)

def test_donated(device):
    step = jax.jit(lambda w: w * 2, donate_argnums=0)
    w = device.xp.ones(1000)
    return lambda: step(w)
"""
CHOOSE_TORCH, CHOOSE_JAX = (f"choose gpuperf_gpu = {library}" for library in ("torch", "jax"))
OF_TORCH, OF_JAX = (
    f"pass device.native, not the fixture: it is the device of {library} itself"
    for library in ("torch", "jax")
)


@pytest.mark.parametrize(
    ("gpu", "said"),
    [
        (None, dict.fromkeys(("module", "factory", "array"), CHOOSE_TORCH)),
        (
            "jax:cpu",
            {
                "native": CHOOSE_TORCH,
                "put": OF_JAX,
                "made": OF_JAX,
                "donated": "a call that donates an array deletes it: keep the new one, and let ",
            },
        ),
        (
            "torch:cpu",
            {"module": OF_TORCH, "factory": OF_TORCH, "put": CHOOSE_JAX},
        ),
    ],
)
def test_a_library_that_refuses_what_it_was_given_gets_what_to_hand_it(ended, gpu, said):
    result, _ = ended(REFUSED, gpu, "-k", " or ".join(said))
    result.assert_outcomes(failed=len(said))
    output = str(result.stdout).split("_ test_")
    assert said == {name: words for name, words in said.items() if words in output[[*said].index(name) + 1]}
    every = (CHOOSE_TORCH, CHOOSE_JAX, OF_TORCH, OF_JAX)
    assert [words in every for words in said.values()] == [sum(map(text.count, every)) for text in output[1:]]
    assert gpu != "jax:cpu" or "<device cpu jax " in output[2]


BY_NAME = """
import jax, pytest, torch

pytestmark = pytest.mark.speedup

def test_torch_if_gpu(device):
    name = "xpu" if device.kind == "gpu" else "cpu"
    return lambda: torch.ones(2, device=name)

def test_torch_always(device):
    torch.ones(2).xpu()

def test_jax_if_gpu(device):
    jax.devices("tpu" if device.kind == "gpu" else "cpu")[0]

def test_jax_always(device):
    return lambda: jax.devices("tpu")[0]
"""


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_a_device_by_name_that_is_not_there_is_told_to_be_device_native(ended, library):
    result, _ = ended(BY_NAME, f"{library}:cpu", "-k", library)
    result.assert_outcomes(failed=2)
    said = (
        f"use device.native in place of a device by name; it is the one of this run, also where {library} on "
    )
    assert 2 == str(result.stdout).count(said)


OWN_NAMES = """
import pytest, torch

@pytest.mark.speedup(min=2)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_own(device):
    values = torch.ones(2, device=device)
    return lambda: values + 1
"""


def test_an_own_parameter_that_names_a_device_which_is_not_there_is_skipped_on_an_emulated_gpu(ended):
    result, records = ended(OWN_NAMES, "torch:cpu")
    result.assert_outcomes(passed=1, skipped=1)
    (skipped,) = (record for record in records.values() if record["status"] == "skipped")
    assert "no_gpu" == skipped["reason_code"]
    assert skipped["reason"].startswith("use device.native, of the fixture device: ")


OUR_DEVICE_BY_NAME = """
import pytest, torch

@pytest.fixture
def values(device):
    return device.asarray([1.0, 2.0])

@pytest.mark.speedup(min=2)
def test_by_name(values, device):
    name = "cuda" if device.kind == "gpu" else "cpu"
    return lambda: torch.ones(2, device=name) + values.to(name)
"""


def test_a_device_by_name_in_a_variant_of_our_fixture_is_an_error_with_its_remedy(ended):
    result, _ = ended(OUR_DEVICE_BY_NAME, "torch:cpu")
    result.assert_outcomes(passed=1, failed=1)
    assert "use device.native in place of a device by name" in str(result.stdout)


def test_where_both_are_imported_a_test_that_takes_a_native_device_is_skipped(ended):
    result, records = ended(TORCH, None, *SOON)
    result.assert_outcomes(skipped=COUNTS["torch"])
    both = "choose gpuperf_gpu = torch or jax in the ini file: both are imported"
    assert both in records["network"]["reason"]
    _, records = ended(TORCH, "none", *SOON)
    assert OFF == records["network"]["reason"]


@pytest.mark.parametrize("page", ["libraries", "training"])
def test_the_tests_of_a_guide_are_timed_and_their_results_compared(ended, library, page):
    text = (GUIDES / f"{page}.md").read_text(encoding="utf-8")
    snippets = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    sources = [snippet for snippet in snippets if f'importorskip("{library}")' in snippet]
    result, records = ended("\n".join(sources), f"{library}:cpu", *ON_ITS_CPU)
    result.assert_outcomes(passed=len(sources))
    assert [True] * len(sources) == [record["check"]["agreed"] for record in records.values()]


TWO_DEVICES = """
    import pytest
    from jax import numpy

    pytestmark = pytest.mark.speedup(min=1e-9)

    @pytest.mark.parametrize("xp", ["numpy", "jax", "jax:gpu"])
    def test_of_both(xp):
        numpy.ones(3)

    @pytest.mark.parametrize("xp", ["jax:gpu", numpy, "numpy"], ids=["gpu", "default", "numpy"])
    def test_in_another_order(xp):
        numpy.ones(3)

    @pytest.mark.parametrize("xp", ["jax:cpu", "jax:gpu"])
    def test_by_their_names(xp):
        numpy.ones(3)

    @pytest.mark.parametrize("xp", ["numpy", "jax", "jax.numpy"])
    def test_of_one_device(xp):
        numpy.ones(3)
"""


@pytest.mark.parametrize("gpu", ["jax:cpu", "standin:jax.numpy"])
def test_where_jax_stands_in_for_its_default_device_a_variant_on_its_gpu_is_skipped(run, gpu):
    result = run(TWO_DEVICES, "-rsE", *SOON, *ON_ITS_CPU, gpu=gpu)
    result.assert_outcomes(passed=8, skipped=2, errors=1)
    skip = "*: needs a GPU of jax: test_it.py::{}, a variant of it, has the stand-in for one"
    result.stdout.fnmatch_lines_random(
        map(skip.format, ("test_of_both[[]jax]", "test_in_another_order[[]default]"))
    )
    result.stdout.fnmatch_lines(["ERROR *test_of_one_device[[]jax.numpy] - Failed: uses the same *"])
