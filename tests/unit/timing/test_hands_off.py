"""Measuring leaves every array that a user can reach as the same number of bare calls leaves it."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from walks import simulated, trial_of

from pytest_gpuperf.devices.simulated import Clock
from pytest_gpuperf.model.demand import Demand, RunOptions


@dataclass
class Arrays:
    """What a suite's fixture holds: arrays in attributes, in a list, and a view of one."""

    a: np.ndarray
    b: np.ndarray
    others: list[np.ndarray] = field(default_factory=list)

    @classmethod
    def made(cls, values):
        a, b = np.array(values), np.array(values)[::-1].copy()
        return cls(a, b, [np.zeros(len(values)), a[1:]])

    @property
    def bytes(self):
        return [array.tobytes() for array in (self.a, self.b, *self.others)]


def adds(held):
    held.a += 1


def sorts(held):
    held.a.sort()


def swaps_values(held):
    held.a[...], held.b[...] = held.b.copy(), held.a.copy()


def swaps_names(held):
    held.b[...] = 3.0
    held.a, held.b = held.b, held.a


def fills_a_buffer(held):
    held.others[0][...] = held.a + held.b


def factorizes(held):
    """Raise, as Cholesky's method does, on what is constant or not positive; else change it in place."""
    if held.a.min() <= 0 or np.ptp(held.a) == 0:
        raise np.linalg.LinAlgError("not positive definite")
    held.a[...] = np.sqrt(held.a) + np.arange(len(held.a))


STEPS = [
    adds,
    sorts,
    swaps_values,
    swaps_names,
    fills_a_buffer,
    factorizes,
]
RETURNS = {
    "nothing of it": lambda held: np.ones(3),
    "an array of it": lambda held: held.a,
    "a buffer of it": lambda held: held.others[0],
    "a view of it": lambda held: held.a[1:],
}


class Counted:
    """A workload over its own arrays, which counts its calls and may raise at one of them."""

    def __init__(self, steps: list[Callable], returns: Callable, values: list[float], fails_at: int):
        self.held, self.steps, self.returns, self.fails_at = Arrays.made(values), steps, returns, fails_at
        self.calls = 0

    def __call__(self):
        self.calls += 1
        if self.calls == self.fails_at:
            raise RuntimeError("this call fails")
        for step in self.steps:
            step(self.held)
        return self.returns(self.held)


def call_bare(workload: Counted, times: int) -> None:
    for _ in range(times):
        with suppress(Exception):  # measuring stops at the call that raises
            workload()


@settings(max_examples=80, deadline=None)
@given(
    steps=st.lists(st.sampled_from(STEPS), min_size=1, max_size=2),
    returns=st.sampled_from(sorted(RETURNS)),
    values=st.lists(st.integers(-2, 9).map(float), min_size=3, max_size=5),
    fails_at=st.integers(0, 40),
    is_body=st.booleans(),
    demand=st.sampled_from([Demand(), Demand(min=2), Demand(max=2, check=False)]),
)
def test_arrays_are_as_the_same_number_of_bare_calls_leaves_them(
    steps, returns, values, fails_at, is_body, demand
):
    workloads = {kind: Counted(steps, RETURNS[returns], values, fails_at) for kind in ("cpu", "gpu")}
    clock = Clock()
    cpu, gpu = (simulated(kind, clock, kernel=seconds) for kind, seconds in (("cpu", 30e-3), ("gpu", 10e-3)))

    def bind(device):
        workload, held = workloads[device.kind], workloads[device.kind].held

        def call(held=held):  # the arrays are reached as fixtures and closures are
            device.launch() if hasattr(device, "launch") else device.asarray(np.ones(1)).sum()
            return workload()

        return call if is_body else lambda: call

    trial = trial_of(demand, RunOptions(max_time=1.0))
    with np.errstate(all="ignore"):
        with suppress(Exception):  # refused or failed: the arrays count all the same
            trial.compare(bind, cpu, gpu)
        for workload in workloads.values():
            bare = Counted(steps, RETURNS[returns], values, fails_at)
            call_bare(bare, workload.calls)
            assert bare.held.bytes == workload.held.bytes
