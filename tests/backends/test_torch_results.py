"""What calls return with PyTorch: subclasses of tensors, honest and lazy, and handles of work."""

import warnings
from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest
from cases import for_each
from plugins import skip_module
from walks import prepared

from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.work.checks import ResultChecks

if find_spec("torch") is None:
    skip_module("torch is not installed; CI's second environment has it")

import torch

LAZY = "which is lazy, or may be"


@pytest.fixture
def gpu():
    return Machine("torch:cpu").gpu()


def outcome(device, make, demand=None):
    """Return the copies of what a call returns, which made it from a new array."""

    def body(seen):
        array = seen.asarray(np.ones((2, 2), np.float32))
        return lambda: make(array)

    workload = prepared(device, body)
    return ResultChecks(demand or Demand(min=3)).copy_to_host(workload.call(), device)


class Lazy(torch.Tensor):
    """Computes its values when anything is done with it: its memory holds none."""

    @staticmethod
    def of(call):
        tensor = torch.Tensor._make_subclass(Lazy, torch.full((2, 2), 7.0))
        tensor.call = call
        return tensor

    @classmethod
    def __torch_function__(cls, function, types, inputs=(), options=None):
        inputs = [each.call() if getattr(each, "call", None) else each for each in inputs]
        return super().__torch_function__(function, types, inputs, options or {})


class Recorded(Lazy):
    """Has an operation and its inputs, and no function."""

    @staticmethod
    def of(a):
        tensor = torch.Tensor._make_subclass(Recorded, torch.full((2, 2), 7.0))
        tensor.pair = (a, a)
        return tensor

    @classmethod
    def __torch_function__(cls, function, types, inputs=(), options=None):
        inputs = [torch.matmul(*each.pair) if getattr(each, "pair", None) else each for each in inputs]
        return torch.Tensor.__torch_function__.__func__(cls, function, types, inputs, options or {})


class Wrapped(torch.Tensor):
    """Has no memory: its values are those of another tensor, as a DTensor's are."""

    @staticmethod
    def __new__(cls, inner):
        found = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)
        found.inner = inner
        return found

    def read(self):
        return self.inner

    @classmethod
    def __torch_dispatch__(cls, function, types, inputs=(), options=None):
        inputs = [each.read() if isinstance(each, Wrapped) else each for each in inputs]
        result = function(*inputs, **(options or {}))
        return Wrapped(result) if isinstance(result, torch.Tensor) else result


class WrappedLazily(Wrapped):
    """Has the product of a tensor still to be computed."""

    def read(self):
        return self.inner @ self.inner


class Unreadable(Wrapped):
    """Cannot be brought to the host in any way that all tensors share."""

    def read(self):
        raise RuntimeError("mixed tensors")


class Named(torch.Tensor):
    """Keeps what it knows beside the numbers, in each result, as torchvision's and fastai's do."""

    @classmethod
    def __torch_function__(cls, function, types, inputs=(), options=None):
        result = super().__torch_function__(function, types, inputs, options or {})
        if isinstance(result, cls):
            result.__dict__.update(inputs[0].__dict__)
        return result


def named(tensor):
    found = tensor.as_subclass(Named)
    found.layout_name, found.source, found.unit = "XYXY", tensor, "px"
    return found


@for_each("make", [lambda a: Lazy.of(lambda: a @ a), Recorded.of, WrappedLazily])
def test_a_tensor_that_computes_its_values_when_they_are_read_is_refused(gpu, make):
    for demand in (Demand(), Demand(min=3), Demand(min=3, check=False)):
        with pytest.raises(GpuPerfError, match=LAZY):
            outcome(gpu, make, demand)


@for_each(
    "make",
    [
        lambda a: torch.nn.Parameter(a @ a),
        lambda a: torch.nn.Buffer(a @ a),
        lambda a: named(a @ a),
        lambda a: named(a @ a).T,
        lambda a: Wrapped(a @ a),
        lambda a: (a @ a).requires_grad_(),
    ],
)
def test_any_other_subclass_of_a_tensor_is_compared(gpu, make):
    values = [leaf.value.tolist() for leaf in outcome(gpu, make) if not leaf.is_label]
    assert [[[2.0, 2.0], [2.0, 2.0]]] == values


def nested(layout, a):
    with warnings.catch_warnings():  # one of the layouts is a prototype
        warnings.simplefilter("ignore")
        return torch.nested.nested_tensor([a, a[:1]], layout=layout)


@for_each(
    "make",
    [
        lambda a: Unreadable(a @ a),
        lambda a: (a @ a).to_sparse(),
        partial(nested, torch.jagged),
        partial(nested, torch.strided),
    ],
)
def test_a_tensor_that_cannot_be_read_is_no_failure_where_nothing_is_compared(gpu, make):
    assert outcome(gpu, make, Demand(min=3, check=False))
    with pytest.raises(GpuPerfError, match="can be neither compared nor copied; return dense arrays"):
        outcome(gpu, make)


def test_a_unit_of_a_tensor_is_a_part_of_the_answer(gpu):
    labels = [
        (leaf.path, leaf.value.item()) for leaf in outcome(gpu, lambda a: named(a @ a)) if leaf.is_label
    ]
    assert [("result.unit", "px")] == labels


def test_a_future_of_torch_and_work_of_several_processes_are_refused(gpu):
    said = r"the workload returns a Future, whose work is not waited for: return future.wait\(\)"
    with pytest.raises(GpuPerfError, match=said):
        prepared(gpu, lambda seen: torch.futures.Future)
    if torch.distributed.is_available():
        work = torch.distributed.Work
        assert callable(work.wait)
        assert callable(work.is_completed)
