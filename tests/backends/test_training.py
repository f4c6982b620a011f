"""What users of torch and JAX time next: training steps, compilers, and results in classes of their own."""

import json

import pytest

# Here, and not in an inner run, which would forget them: compiled modules cannot be imported twice.
torch = pytest.importorskip("torch", reason="CI's second environment has it")
jax = pytest.importorskip("jax", reason="CI's second environment has it")

TORCH = """
import copy
from dataclasses import dataclass
from collections import OrderedDict
import pytest, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
pytestmark = pytest.mark.speedup

def net(device):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).to(device.native)

def data(device):
    torch.manual_seed(1)
    return torch.randn(128, 64).to(device.native), torch.randint(0, 8, (128,)).to(device.native)

def trainer(device, make, compiled=False):
    model = net(device)
    opt = make(model.parameters()); x, y = data(device)
    w = copy.deepcopy(model.state_dict())
    o = copy.deepcopy(opt.state_dict())
    forward = torch.compile(model, backend="aot_eager") if compiled else model

    def step():
        opt.zero_grad()
        loss = nn.functional.cross_entropy(forward(x), y)
        loss.backward()
        opt.step()
        return loss
    def restore():
        model.load_state_dict(w)
        opt.load_state_dict(o)
    return model, step, restore

def test_sgd(device, gpuperf):
    _, step, restore = trainer(device, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))
    return gpuperf.workload(step, reset=restore)

def test_adamw_returns_model(device, gpuperf):
    model, step, restore = trainer(device, lambda p: torch.optim.AdamW(p, lr=1e-3))
    def run():
        return {"loss": step().detach(), "weights": model.state_dict()}
    return gpuperf.workload(run, reset=restore)

def test_epoch(device, gpuperf):
    model = net(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    x, y = data(device)
    loader = DataLoader(TensorDataset(x.cpu(), y.cpu()), batch_size=32)
    w = copy.deepcopy(model.state_dict())
    def epoch():
        total = 0.0
        for a, b in loader:
            a, b = a.to(device.native), b.to(device.native)
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(a), b)
            loss.backward()
            opt.step()
            total += loss.item()
        return total
    return gpuperf.workload(epoch, reset=lambda: model.load_state_dict(w))

def test_compile(device):
    model = torch.compile(net(device), backend="aot_eager"); x, y = data(device)
    return lambda: model(x)

def test_compiled_training(device, gpuperf):
    _, step, restore = trainer(device, lambda p: torch.optim.SGD(p, lr=0.1), compiled=True)
    return gpuperf.workload(step, reset=restore)

def test_autocast(device):
    model = net(device); x, y = data(device)
    def run():
        with torch.autocast(device.native.type, dtype=torch.bfloat16), torch.no_grad():
            return model(x)
    return run

@dataclass
class Out:
    loss: torch.Tensor
    logits: torch.Tensor
    extra: str = "a"

def test_dataclass(device):
    model = net(device); x, y = data(device)
    def run():
        z = model(x)
        return Out(nn.functional.cross_entropy(z, y), z)
    return run

class ModelOutput(OrderedDict):  # as transformers'
    def __init__(self, **k):
        super().__init__(**k)
        for n, v in k.items():
            super().__setattr__(n, v)
    def __getitem__(self, k):
        if isinstance(k, str):
            return dict(self.items())[k]
        return tuple(self.values())[k]

def test_model_output(device):
    model = net(device); x, y = data(device)
    return lambda: ModelOutput(logits=model(x))

class Result:
    def __init__(self, logits): self.logits = logits

def test_plain_class(device):
    model = net(device); x, y = data(device)
    return lambda: Result(model(x))

def test_distribution(device):
    model = net(device); x, y = data(device)
    return lambda: torch.distributions.Categorical(logits=model(x))

def test_lstm_packed(device):
    torch.manual_seed(0)
    m = nn.LSTM(16, 16, batch_first=True).to(device.native)
    x = torch.randn(4, 10, 16).to(device.native)
    def run():
        p = nn.utils.rnn.pack_padded_sequence(x, [10, 8, 5, 2], batch_first=True)
        return m(p)
    return run
"""
JAX = """
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
import jax, jax.numpy as jnp, numpy as np, pytest
pytestmark = pytest.mark.speedup
R = np.random.default_rng(0)
W = R.normal(size=(64, 64)).astype(np.float32)
X = R.normal(size=(128, 64)).astype(np.float32)

@jax.tree_util.register_pytree_node_class
class Linear:
    def __init__(self, w, b, act=jnp.tanh): self.w, self.b, self.act = w, b, act
    def __call__(self, x): return self.act(x @ self.w + self.b)
    def tree_flatten(self): return (self.w, self.b), self.act
    @classmethod
    def tree_unflatten(cls, aux, kids): return cls(*kids, aux)

@partial(jax.tree_util.register_dataclass, data_fields=["params", "count"], meta_fields=["name"])
@dataclass
class State:
    params: dict
    count: jax.Array
    name: str = "s"

def loss(m, x): return jnp.mean(m(x) ** 2)

@jax.jit
def sgd(m, x):
    v, g = jax.value_and_grad(loss)(m, x)
    return jax.tree.map(lambda a, b: a - 0.1 * b, m, g), v

def model(device):
    return Linear(device.asarray(W), device.asarray(np.zeros(64, np.float32)))

def test_pytree_class(device):
    m, x = model(device), device.asarray(X)
    return lambda: sgd(m, x)

def test_pytree_static_dataclass(device):
    s = State({"w": device.asarray(W)}, device.asarray(np.zeros((), np.int32)))
    f = jax.jit(lambda s: State(jax.tree.map(lambda a: a @ a, s.params), s.count + 1, s.name))
    return lambda: f(s)

class Batch(Mapping):
    def __init__(self, d): self._d = d
    def __getitem__(self, k): return self._d[k]
    def __iter__(self): return iter(self._d)
    def __len__(self): return len(self._d)

def test_mapping(device):
    f, x = jax.jit(lambda x: x @ x.T), device.asarray(X)
    return lambda: Batch({"product": f(x)})

def test_carried(device, gpuperf):
    x, first = device.asarray(X), model(device)
    state = {"m": first}
    def step():
        state["m"], v = sgd(state["m"], x)
        return v
    def restore(): state["m"] = first
    return gpuperf.workload(step, reset=restore)

def test_donate_carried(device, gpuperf):
    x = device.asarray(X)
    state = {}
    f = jax.jit(lambda w, x: (w - 0.01 * (x.T @ (x @ w)) / 128, (x @ w).sum()), donate_argnums=0)
    def restore(): state["w"] = device.asarray(W)
    def step():
        state["w"], v = f(state["w"], x)
        return v
    return gpuperf.workload(step, reset=restore)

def test_adam(device, gpuperf):
    x = device.asarray(X)
    p0 = {"w": device.asarray(W)}
    zeros = jax.tree.map(jnp.zeros_like, p0)
    first = (p0, zeros, zeros, device.asarray(np.zeros((), np.float32)))
    @jax.jit
    def f(s, x):
        p, m, v, t = s
        loss, g = jax.value_and_grad(lambda p: jnp.mean((x @ p["w"]) ** 2))(p)
        t = t + 1
        m = jax.tree.map(lambda m, g: .9 * m + .1 * g, m, g)
        v = jax.tree.map(lambda v, g: .999 * v + .001 * g * g, v, g)
        a, b = 1 - 0.9**t, 1 - 0.999**t
        p = jax.tree.map(lambda p, m, v: p - 1e-3 * (m / a) / (jnp.sqrt(v / b) + 1e-8), p, m, v)
        return (p, m, v, t), loss
    s = [first]
    def step():
        s[0], loss = f(s[0], x)
        return s[0][0], loss
    def restore(): s[0] = first
    return gpuperf.workload(step, reset=restore)
"""
RANDOM = """
import numpy as np, pytest, torch
from torch.nn import Dropout, Linear, Sequential
from torch.nn.functional import dropout

pytestmark = pytest.mark.speedup(min=0.01)

def test_module(device):
    torch.manual_seed(0)
    network = Sequential(Linear(8, 8), Dropout()).to(device.native)
    x = torch.ones(4, 8, device=device.native)
    return lambda: network(x)

def test_function(device):
    x = torch.ones(400, device=device.native)
    return lambda: dropout(x)

def test_weights(device):
    layer = Linear(8, 8).to(device.native)
    x = torch.ones(4, 8, device=device.native)
    return lambda: layer(x)

def test_numpy(device):
    x = torch.ones(400, device=device.native)
    return lambda: x * np.random.rand()

def test_generator(device):
    generator = torch.Generator(device.native)
    return lambda: torch.rand(9, generator=generator, device=device.native)
"""


@pytest.fixture
def records(run, pytester):
    """Run a suite on an emulated GPU of a library; return the records by the tests' names."""

    def call(source, library):
        options = ("--gpuperf-json=r.json", "--gpuperf-fail=nothing")
        run(source, *options, gpu=f"{library}:cpu")
        listed = json.loads((pytester.path / "r.json").read_text(encoding="utf-8"))["records"]
        return {record["nodeid"].partition("::")[2]: record for record in listed}

    return call


@pytest.mark.parametrize(("library", "source", "tests"), [("torch", TORCH, 11), ("jax", JAX, 6)])
def test_they_are_timed_as_written_and_their_results_compared(records, library, source, tests):
    found = records(source, library)
    assert len(found) == tests
    for name, record in found.items():
        assert ("recorded", True) == (record["status"], record["check"] and record["check"]["agreed"]), name
        assert record["speedup"]["value"] > 0


def test_dropout_and_random_numbers_are_refused_with_what_to_do_about_them(records):
    for name, record in records(RANDOM, "torch").items():
        assert record["status"] in ("failed", "error"), name
        assert "before the call" in record["reason"]


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


@pytest.mark.parametrize(
    ("library", "imports", "ones"),
    [("torch", "import torch", "torch.ones"), ("jax", "from jax import numpy as jnp", "jnp.ones")],
)
def test_work_that_would_not_reach_a_gpu_is_noted_on_an_emulated_one(records, library, imports, ones):
    found = records(NUMPYS.format(imports=imports, ones=ones), library)
    noted = {
        name: note["text"]
        for name, record in found.items()
        for note in record["notes"]
        if note["code"] == "not_on_device"
    }
    assert noted.keys() == {"test_numpys_function", "test_no_device"}
    assert f"the result on {library} on the CPU is an array of NumPy" in noted["test_numpys_function"]
    assert f"the call refers to nothing on {library} on the CPU, so that" in noted["test_no_device"]
