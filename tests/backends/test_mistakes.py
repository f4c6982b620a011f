"""Mistakes in tests of torch and JAX: each is a skip without a GPU, and an error with its remedy on one."""

import json
import sys
from textwrap import indent

import pytest

# Here, and not in an inner run, which would forget them: compiled modules cannot be imported twice.
torch = pytest.importorskip("torch", reason="CI's second environment has it")
jax = pytest.importorskip("jax", reason="CI's second environment has it")

HEAD = """
import concurrent.futures, threading
import pytest, {library}

pytestmark = pytest.mark.speedup(max=1e9)

def ones(device):
    return {ones}
"""
STEP = """
torch.manual_seed(0)
model = torch.nn.Linear(64, 8).to(device.native)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step():
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss
return step
"""
DRAW = """
state = [jax.random.key(0)]
def draw():
    state[0], key = jax.random.split(state[0])
    return jax.random.normal(key, (64,))
return draw
"""
GOOD = {"good": ("return lambda: x + 1", "")}
OF_EITHER = {  # what each test does with an array `x`, and a part of the remedy that is said of it
    "handle": (
        "p = concurrent.futures.ThreadPoolExecutor(1); return lambda: p.submit(int)",
        "future.result()",
    ),
    "runs_out": ("batches = iter([x, x]); return lambda: next(batches) + 1", "use itertools.cycle"),
    "counts": ("n = []; return lambda: (n.append(1), x * len(n))[1]", "restore all that it changes"),
    "object": ("return threading.Lock", "return dense arrays, numbers or text"),
    "arguments": ("return lambda x: x + 1", "takes arguments: missing"),
}
OF_TORCH = {
    "dropout": ("torch.manual_seed(0); return lambda: torch.nn.functional.dropout(x)", "with dropout off"),
    "in_place": ("return lambda: x.add_(1)", "restore it with gpuperf.workload"),
    "in_place_up_to_infinity": ("return lambda: x.mul_(2)", "restore all that it changes"),
    "step": (STEP, "gpuperf.workload(call, reset=...)"),
    "freed": (
        "y = (x.requires_grad_() ** 2).sum(); return lambda: y.backward()",
        "backward through the graph a second time",
    ),
}
OF_JAX = {
    "key": (DRAW, "restore all that it changes"),
    "donated": (
        "step = jax.jit(lambda x: x * 2, donate_argnums=0); return lambda: step(x)",
        "keep the new one, and let the reset",
    ),
    "compiles": ("return lambda: jax.jit(lambda x: x @ x)(x)", "make its functions once"),
    "closed_over": ("product = jax.jit(lambda: x @ x); return lambda: product()", "pass them as arguments"),
}
ONES = {
    "torch": "torch.ones(64, 64).to(device.native)",
    "jax": "jax.device_put(jax.numpy.ones((64, 64)), device.native)",
}
MISTAKES = {"torch": OF_EITHER | OF_TORCH, "jax": OF_EITHER | OF_JAX}
SOON = ("--gpuperf-max-time=1", "--gpuperf-lock=none", "--gpuperf-json=r.json", "-Wdefault")


@pytest.fixture(params=ONES)
def library(request, monkeypatch):
    """Name a library; the other one seems not to be imported, as in a suite of one library."""
    for other in ONES.keys() - {request.param}:
        monkeypatch.delitem(sys.modules, other)
    return request.param


@pytest.fixture
def ended(run, pytester, library):
    """Run a test without a mistake and those with one; return pytest's result, and records by their names."""
    source = HEAD.format(library=library, ones=ONES[library])
    for name, (body, _) in (GOOD | MISTAKES[library]).items():
        source += f"\ndef test_{name}(device):\n    x = ones(device)\n{indent(body, '    ')}\n"

    def call(gpu):
        result = run(source, *SOON, gpu=gpu)
        listed = json.loads((pytester.path / "r.json").read_text(encoding="utf-8"))["records"]
        return result, {record["nodeid"].partition("::test_")[2]: record for record in listed}

    return call


def test_without_a_gpu_no_mistake_in_a_workload_is_an_error(ended, library):
    count = len(MISTAKES[library])
    for gpu in (None, library):
        result, records = ended(gpu)
        result.assert_outcomes(skipped=count + 1)
        assert {"skipped"} == {record["status"] for record in records.values()}
    assert "no_gpu" == records["good"]["reason_code"]
    for name, (_, remedy) in MISTAKES[library].items():
        assert "error_on_gpu" == records[name]["reason_code"], name
        assert remedy in records[name]["reason"]
    result.stdout.fnmatch_lines([f"at least {count} of {count + 1} skipped tests would be errors on a GPU"])


def test_on_an_emulated_gpu_each_is_an_error_with_its_remedy(ended, library):
    result, records = ended(f"{library}:cpu")
    assert {"passed": 1, "failed": len(MISTAKES[library])}.items() <= result.parseoutcomes().items()
    assert records.pop("good")["speedup"] is not None
    assert {"error"} == {record["status"] for record in records.values()}
    output = str(result.stdout)
    assert [] == [remedy for _, remedy in MISTAKES[library].values() if remedy not in output]
