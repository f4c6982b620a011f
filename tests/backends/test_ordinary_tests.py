"""Tests that compute with torch and JAX themselves: skipped without a GPU, timed on an emulated one."""

import json
import re
import sys
from pathlib import Path

import pytest

# Here, and not in an inner run, which would forget them: compiled modules cannot be imported twice.
torch = pytest.importorskip("torch", reason="CI's second environment has it")
jax = pytest.importorskip("jax", reason="CI's second environment has it")

TORCH = """
import pytest, torch
from torch import nn

@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)

@pytest.mark.speedup(max=100)
def test_network(device):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).to(device.native)
    x = torch.ones(32, 64, device=device.native)
    return lambda: network(x)

@pytest.mark.speedup
def test_training_step(device):
    torch.manual_seed(0)
    layer = nn.Linear(64, 64).to(device.native)
    x = torch.ones(32, 64, device=device.native)

    def step():
        layer.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        return loss.item()
    return step

@pytest.mark.speedup
def test_bfloat16(device):
    x = device.asarray(torch.ones(64, 64, dtype=torch.bfloat16))
    return lambda: {"sum": x.sum(), "product": [torch.matmul(x, x)]}

@pytest.mark.speedup
def test_in_place(device):
    x = torch.ones(1000, device=device.native)
    return lambda: x.clone().mul_(2).add_(1)
"""
JAX = """
import jax, jax.numpy as jnp, numpy as np, pytest

@pytest.mark.speedup(max=100)
def test_jit(device):
    product = jax.jit(lambda a: a @ a)
    a = device.asarray(np.ones((64, 64), np.float32))
    return lambda: product(a)

@pytest.mark.speedup
def test_value_and_grad(device):
    step = jax.jit(jax.value_and_grad(lambda w, x: jnp.mean((x @ w) ** 2)))
    w, x = jax.device_put((np.ones((64, 8), np.float32), np.ones((32, 64), np.float32)), device.native)
    return lambda: step(w, x)

@pytest.mark.speedup(check=False)
def test_keys(device):
    key = jax.device_put(jax.random.key(0), device.native)
    split = jax.jit(jax.random.split)
    return lambda: split(key)

@pytest.mark.speedup
def test_pytree(device):
    scan = jax.jit(lambda xs: jax.lax.scan(lambda c, x: (c + x, {"sum": c}), jnp.float32(0), xs))
    xs = jax.device_put(jnp.ones(100, jnp.bfloat16).astype(jnp.float32), device.native)
    return lambda: scan(xs)
"""
SUITES = {"torch": TORCH, "jax": JAX}
RAISES = {
    "torch": "import pytest, torch\n\n@pytest.mark.speedup\ndef test_it(device):\n"
    "    return lambda: torch.ones(2) @ torch.ones(3)",
    "jax": "import pytest, jax.numpy as jnp\n\n@pytest.mark.speedup\ndef test_it(device):\n"
    "    return lambda: jnp.ones(2) @ jnp.ones(3)",
}
GUIDES = Path(__file__).parents[2] / "docs" / "guides"


@pytest.fixture(params=SUITES)
def library(request, monkeypatch):
    """Name a library; the other one seems not to be imported, as in a suite of one library."""
    for other in SUITES.keys() - {request.param}:
        monkeypatch.delitem(sys.modules, other)
    return request.param


@pytest.fixture
def ended(run, pytester):
    """Run a suite; return pytest's result and the records."""

    def call(source, gpu, *options):
        result = run(source, "--gpuperf-json=r.json", "--gpuperf-max-time=3", "-Werror", *options, gpu=gpu)
        return result, json.loads((pytester.path / "r.json").read_text(encoding="utf-8"))["records"]

    return call


OFF = "the GPU is turned off by --gpuperf-gpu=none; leave the option out to use it"


@pytest.mark.parametrize("gpu", [None, "none", "the library's"])
def test_without_a_gpu_they_are_skipped_and_the_line_that_chooses_their_library_for_good_is_said(
    ended, library, gpu
):
    result, records = ended(SUITES[library], library if gpu == "the library's" else gpu)
    result.assert_outcomes(skipped=4)
    assert {("skipped", "no_gpu")} == {(record["status"], record["reason_code"]) for record in records}
    if gpu is None:
        assert records[0]["reason"].startswith(
            f"the test computes with {library}, and no GPU was chosen for {library}: gpuperf_gpu = {library} "
            "in the ini file (keras for a test of Keras) compares its CPU and its GPU; without a GPU, "
            f"--gpuperf-gpu={library}:cpu emulates one"
        )
    assert gpu != "none" or OFF == records[0]["reason"], "and nothing else is the reason"


OF_ONE_DEVICE = """
import jax.numpy as jnp, pytest

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
"""


@pytest.mark.parametrize("gpu", [None, "none", "torch"])
def test_variants_that_compute_with_jax_are_skipped_without_a_gpu_too(ended, gpu):
    result, records = ended(OF_ONE_DEVICE, gpu)
    result.assert_outcomes(skipped=5)
    assert all(record["reason"] for record in records)


def test_any_tensor_in_the_result_shows_what_the_test_computes_with(ended):
    source = "import numpy as np, pytest, torch\n\n@pytest.mark.speedup\ndef test_it(device):\n"
    _, (record,) = ended(f"{source}    return lambda: (1.0, np.float64(2), torch.ones(2))", None)
    assert record["reason"].startswith("the test computes with torch, ")


def test_sparse_tensors_beside_another_library_need_not_be_compared(ended):
    source = "import pytest, torch\n\n@pytest.mark.speedup({})\ndef test_it(device):\n"
    source += "    return lambda: torch.eye(10).to_sparse() * 2"
    _, (record,) = ended(source.format("min=1e-9, check=False"), "standin:jax.numpy", "-Wdefault")
    assert "passed" == record["status"]
    _, (record,) = ended(source.format("min=1e-9"), "standin:jax.numpy")
    assert "which can be neither compared nor copied; return dense arrays" in record["reason"]


def test_a_body_that_raises_is_red_without_a_gpu(ended, library):
    result, (record,) = ended(RAISES[library], None)
    result.assert_outcomes(failed=1)
    assert "error" == record["status"]


def test_an_emulated_gpu_is_compared_with_the_library_itself(ended, library):
    result, records = ended(SUITES[library], f"{library}:cpu", "--gpuperf-fail=nothing", "-Wdefault")
    result.assert_outcomes(passed=4)
    for record in records:
        assert [library, library] == [record[kind]["device"]["backend"] for kind in ("cpu", "gpu")]
        assert [False, True] == [record[kind]["device"]["emulated"] for kind in ("cpu", "gpu")]
        assert record["speedup"]["value"] > 0
        assert record["check"]["agreed"] is (True if record["demand"]["check"] else None)


def test_beside_another_library_jaxs_results_are_refused_checked_or_not(ended):
    result, records = ended(JAX, "standin:jax.numpy")
    result.assert_outcomes(failed=2, skipped=2)  # with arguments in the marker, and without
    for record in records:
        assert "which numpy does not wait for; compare jax with itself: gpuperf_gpu = jax" in record["reason"]


@pytest.mark.parametrize(
    ("said", "gpu", "call"),
    [
        ("choose gpuperf_gpu = torch", None, "torch.nn.Linear(2, 2).to(device)"),
        ("choose gpuperf_gpu = torch", None, "torch.ones(2, device=device)"),
        ("choose gpuperf_gpu = jax*\n*<device cpu jax *>", "jax:cpu", "jax.device_put(1.0, device)"),
        (
            "choose gpuperf_gpu = torch",
            None,
            "torch.nn.functional.relu(device.asarray(np.ones((2, 2), np.float32)))",
        ),
        ("choose gpuperf_gpu = torch", "jax:cpu", "torch.ones(2, device=device.native)"),
    ],
)
def test_a_library_that_refuses_what_it_was_given_gets_what_to_hand_it(ended, said, gpu, call):
    source = "import jax, numpy as np, pytest, torch\n\n@pytest.mark.speedup\ndef test_it(device):\n"
    result, _ = ended(f"{source}    return lambda: {call}", gpu)
    for line in said.splitlines():
        result.stdout.fnmatch_lines([f"*{line}*"])


def test_an_array_that_was_donated_gets_the_way_to_carry_it(ended):
    source = """
import jax, jax.numpy as jnp, pytest

@pytest.mark.speedup
def test_it(device):
    step = jax.jit(lambda w: w * 2, donate_argnums=0)
    w = device.xp.ones(1000)
    return lambda: step(w)
"""
    result, _ = ended(source, "jax:cpu")
    result.stdout.fnmatch_lines(["*a call that donates an array deletes it: keep the new one, and let *"])


def test_where_both_are_imported_a_test_that_takes_a_native_device_is_skipped(ended):
    result, records = ended(TORCH, None)
    result.assert_outcomes(skipped=4)
    assert "both torch and jax are imported: choose one, gpuperf_gpu = torch or jax" in records[0]["reason"]
    _, (record, *_) = ended(TORCH, "none")
    assert OFF == record["reason"]


@pytest.mark.parametrize("page", ["libraries", "training"])
def test_the_tests_of_a_guide_are_timed_and_their_results_compared(ended, library, page):
    text = (GUIDES / f"{page}.md").read_text(encoding="utf-8")
    snippets = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    sources = [snippet for snippet in snippets if f'importorskip("{library}")' in snippet]
    result, records = ended("\n".join(sources), f"{library}:cpu", "--gpuperf-fail=nothing", "-Wdefault")
    result.assert_outcomes(passed=len(sources))
    assert [True] * len(sources) == [record["check"]["agreed"] for record in records]
