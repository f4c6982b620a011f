"""The truth: on simulated devices every number of a record is the one that was built into them.

The times are fractions, on a clock that keeps them as such, and what they add up to is worked out here from
the description of the devices alone: equal means equal, but for the rounding of the last floats.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import count, product
from math import ceil, exp, inf, log
from random import Random

import numpy as np
import pytest
from msgspec import structs

from pytest_gpuperf.analysis import looks, threshold
from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing
from pytest_gpuperf.model.demand import Demand, RunOptions, SizeGroup
from pytest_gpuperf.model.record import Record, Verdict
from pytest_gpuperf.model.sampling_constants import SamplingPlan
from pytest_gpuperf.timing import rounds
from pytest_gpuperf.timing.trial import Trial

CASES = [*range(44), 70, 82]  # the last have nothing to copy
BODIES = 16
SIZE_GROUPS = 28
STEP = 1e-9  # seconds: the shortest that is looked for, and a simulated clock shows any
CERTAIN = 7.5  # seconds of rounds, after which a limit is decided 1 % beyond it


class ExactClock(Clock):
    """A clock that does not round."""

    @property
    def now(self):
        return self._now

    @now.setter
    def now(self, seconds):
        self._now = seconds if isinstance(seconds, Fraction) else Fraction(seconds)


class ExactDevice(SimulatedDevice):
    """A device that is kept busy for a fraction, too."""

    def occupy(self, seconds):
        return super().occupy(Fraction(seconds))


@dataclass(frozen=True, kw_only=True)
class Case:
    """A workload, the devices it runs on, and how it is measured; sizes in bytes.

    A call launches a kernel for its scratch and one for each result; its first on the GPU does extra work.
    """

    seed: int
    cpu: Timing
    gpu: Timing
    up: tuple[int, ...]
    down: tuple[int, ...]
    made: int
    scratch: int
    extra: Fraction
    demand: Demand
    plan: RunOptions
    variants: bool

    def body(self, device):
        """Hold the inputs; return the workload."""
        held = [device.asarray(np.zeros(size, bool)) for size in self.up]
        held.append(device.xp.zeros(self.made, bool))
        calls = count()

        def call(held=held):
            if next(calls) == 0 and device.kind == "gpu":
                device.launch(self.extra)
            return self.work(device)

        return call

    def whole(self, device):
        """Copy, work and copy back in one body."""
        held = [device.asarray(np.zeros(size, bool)) for size in self.up]
        results = [device.asnumpy(result) for result in self.work(device)]
        del held
        return results

    def work(self, device):
        scratch = device.xp.zeros(self.scratch, bool)
        results = [device.xp.ones(size, bool) for size in self.down]
        del scratch
        return results

    def devices(self) -> tuple[SimulatedDevice, SimulatedDevice]:
        clock = ExactClock()
        cpu = ExactDevice("cpu", clock=clock, timing=self.cpu, noise=lambda: 1)
        return cpu, ExactDevice("gpu", clock=clock, timing=self.gpu, noise=lambda: 1)

    def walk(self, body=None, size_group=None) -> Record:
        """Measure, both devices interleaved or one after the other, and return the record."""
        cpu, gpu = self.devices()
        bind = partial(partial, body or self.body)
        trial = Trial(
            nodeid=f"test_it[{self.seed}]", demand=self.demand, options=self.plan, size_group=size_group
        )
        if self.variants:
            variant = Trial(
                nodeid=f"test_it[{self.seed}-cpu]",
                demand=self.demand,
                options=self.plan,
                size_group=size_group,
            )
            side = variant.time_alone(bind, cpu, seconds=CERTAIN)
            found = trial.compare_with(side, bind, gpu)
        else:
            found = trial.compare(bind, cpu, gpu)
        return trial.record(found)


@dataclass(frozen=True)
class Walk:
    """What a case was built to show, and what was found of it."""

    case: Case
    found: Record

    def __repr__(self):
        return f"{self.case}"

    @cached_property
    def cpu(self) -> Fraction:
        return self._per_call("cpu", self.found.cpu.block_calls)

    @cached_property
    def gpu(self) -> Fraction:
        return self._per_call("gpu", self.found.gpu.block_calls)

    @cached_property
    def cpu_latency(self) -> Fraction:
        return self._latency("cpu", self.found.cpu)

    @cached_property
    def gpu_latency(self) -> Fraction:
        return self._latency("gpu", self.found.gpu)

    @property
    def gated(self) -> tuple[Fraction, Fraction]:
        """The times of CPU and GPU that the demand is about, data resident."""
        latency = self.case.demand.latency
        return (self.cpu_latency, self.gpu_latency) if latency else (self.cpu, self.gpu)

    @cached_property
    def up(self) -> Fraction:
        """The copies up are waited for together."""
        gpu, size = self.case.gpu, sum(self.case.up)
        if not size:
            return Fraction(0)
        bandwidth = gpu.upload or gpu.bandwidth
        return size / bandwidth

    @cached_property
    def down(self) -> Fraction:
        """The copies down are waited for one by one, and these waits are none of their time."""
        return Fraction(sum(self.case.down)) / self.case.gpu.bandwidth

    @property
    def copies(self) -> Fraction:
        """What the copies add to a call: by a loop of calls with them, if there was time for it."""
        if not self.found.transfer.loop:
            return self.up + self.down
        waits = 0 if sum(self.case.down) else self.case.gpu.synchronize
        return of_the_body(self, "gpu") + waits - self.gated[1]

    @property
    def bytes(self) -> int:
        return sum(self.case.up) + sum(self.case.down)

    @property
    def speedups(self) -> dict[str, Fraction | None]:
        (cpu, gpu), calls = self.gated, self.case.demand.calls
        return {
            "never": cpu / gpu,
            "once": cpu / (gpu + self.copies / calls) if calls else None,
            "always": cpu / (gpu + self.copies),
            "latency": self.cpu_latency / self.gpu_latency,
        }

    @property
    def speedup(self) -> Fraction:
        return self.speedups[self.case.demand.transfer]

    @property
    def costs(self) -> dict[str, Fraction]:
        """What has to be earned back, in seconds."""
        extra = max(0, self.first_call("gpu") - self.gpu_latency)
        return {"transfer": self.copies, "first_call": extra, "both": self.copies + extra}

    def first_call(self, kind) -> Fraction:
        timing, extra = self.timing(kind), [self.case.extra] if kind == "gpu" else []
        return run(kind, [*extra, *self.kernels(kind)], timing) + timing.synchronize

    def timing(self, kind) -> Timing:
        return self.case.gpu if kind == "gpu" else self.case.cpu

    def kernels(self, kind) -> list[Fraction]:
        return kernels(self.timing(kind), self.case.scratch, *self.case.down)

    def _per_call(self, kind, calls) -> Fraction:
        timing = self.timing(kind)
        return (run(kind, self.kernels(kind), timing, calls) + timing.synchronize) / calls

    def _latency(self, kind, found) -> Fraction:
        timing = self.timing(kind)
        return run(kind, self.kernels(kind), timing) + timing.synchronize


def kernels(timing, *sizes) -> list[Fraction]:
    return [timing.kernel + timing.per_element * size for size in sizes]


def run(kind, kernels, timing, calls=1) -> Fraction:
    """Return the seconds until so many calls have run, each launching these kernels one after the other.

    A CPU does everything in turn. A GPU's kernel begins when it was launched and the one before has ended, so
    that some kernel, launched as soon as can be, is followed by all later ones without a pause: one of
    the first call or of the last, because the time grows or shrinks evenly from call to call.
    """
    total = sum(kernels)
    if kind == "cpu":
        return calls * (len(kernels) * timing.launch + total)
    return max(
        (call * len(kernels) + place + 1) * timing.launch + (calls - call) * total - sum(kernels[:place])
        for call in {0, calls - 1}
        for place in range(len(kernels))
    )


def true(value, rel=1e-9):
    return pytest.approx(float(value), rel=rel, abs=0)


def seconds(draws, low, high) -> Fraction:
    """Return a time between two, each order of magnitude as likely as the next, in picoseconds."""
    return Fraction(round(1e12 * exp(draws.uniform(log(low), log(high)))), 10**12)


def bandwidth(draws) -> Fraction:
    return Fraction(round(10 ** draws.uniform(2, 6)) * 10**6)


def sizes(draws) -> tuple[int, ...]:
    """Return the sizes of up to three arrays, empty ones among them."""
    return tuple(
        round(10 ** draws.uniform(0, 6)) if draws.random() < 0.75 else 0 for _ in range(draws.randrange(4))
    )


def timing(draws, kernel, fastest) -> Timing:
    """Return what a device with that kernel time costs; waiting costs up to twice the fastest kernel."""
    return Timing(
        kernel=kernel,
        per_element=Fraction(draws.randrange(1000), 10**15),
        launch=draws.choice([Fraction(0), seconds(draws, 1e-8, 2e-5)]),
        synchronize=draws.choice([0, 1, 1, 1]) * min(seconds(draws, 1e-8, 5e-5), 2 * fastest),
        bandwidth=bandwidth(draws),
        upload=draws.choice([None, bandwidth(draws)]),
    )


def drawn_demand(draws) -> Demand:
    transfer = draws.choice(["never", "never", "once", "always"])
    calls = {"never": None, "once": draws.randint(1, 100), "always": None}
    limit = exp(draws.uniform(log(0.01), log(100)))
    return Demand(
        **draws.choice([{}, {"min": limit}, {"max": limit}, {"min": limit, "max": 2 * limit}]),
        transfer=transfer,
        calls=calls[transfer],
        latency=draws.random() < 0.4,
    )


def drawn(seed) -> Case:
    draws = Random(seed)  # noqa: S311 - cases, not secrets
    longest = draws.choice([1e-4, 1e-4, 0.1])  # the short ones are those that copies matter to
    kernels = seconds(draws, 1e-6, longest), seconds(draws, 1e-6, longest)
    cpu, gpu = (timing(draws, kernel, min(kernels)) for kernel in kernels)
    up, down = sizes(draws), sizes(draws)
    copies = [sum(up) / (gpu.upload or gpu.bandwidth), sum(down) / gpu.bandwidth]
    waits = [gpu.synchronize + copy for copy in copies if copy]
    fastest = min(*kernels, *(5 * wait for wait in waits))  # a hundred calls in a block, if that
    return Case(
        seed=seed,
        cpu=cpu,
        gpu=gpu,
        up=up,
        down=down,
        made=draws.choice([0, draws.randrange(10_000)]),
        scratch=draws.choice([0, draws.randrange(10_000)]),
        extra=draws.choice([Fraction(0), seconds(draws, 1e-6, 1.0)]),
        demand=drawn_demand(draws),
        plan=RunOptions(
            max_time=100.0,
            sampling=SamplingPlan(
                secondary_time=2e-3,
                block_time=min(1e-3, float(fastest) * draws.uniform(0.5, 20)),
            ),
            cost_ratio=draws.uniform(1, 5),
        ),
        variants=draws.random() < 0.3,
    )


@pytest.fixture(scope="module")
def long_waits():
    """Let the waits before rounds be so long that thirty rounds last for as long as every look needs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "_LONGEST_WAIT", 0.5)
        yield


@pytest.fixture(scope="module")
def walks(long_waits) -> list[Walk]:
    cases = [drawn(seed) for seed in CASES]
    return [Walk(case, case.walk()) for case in cases]


def test_the_cases_are_varied(walks):
    """What is drawn covers what the tests below are about."""
    demands = [walk.case.demand for walk in walks]
    for kind in product(("never", "once", "always"), (True, False)):
        assert sum(kind == (demand.transfer, demand.latency) for demand in demands) >= 3, kind
    kinds = {
        "GPU blocks of several calls": [walk.found.gpu.block_calls > 1 for walk in walks],
        "CPU blocks of several calls": [walk.found.cpu.block_calls > 1 for walk in walks],
        "nothing to copy": [not walk.bytes for walk in walks],
        "variants": [walk.case.variants for walk in walks],
        "costly waits": [20 * walk.case.gpu.synchronize > walk.gpu for walk in walks],
        "copies that undo a gain": [walk.speedups["never"] > 1 > walk.speedups["always"] for walk in walks],
        "a first call to earn back": [walk.costs["first_call"] > walk.cpu > walk.gpu for walk in walks],
    }
    assert [] == [f"{kind}: {sum(some)}" for kind, some in kinds.items() if sum(some) < 2]
    statuses = {status: sum(walk.found.status == status for walk in walks) for status in ("passed", "failed")}
    assert min(statuses.values()) >= 10, statuses


def test_the_samples_are_the_true_times_of_a_call_in_a_block(walks):
    for walk in walks:
        cpu, gpu = walk.found.cpu, walk.found.gpu
        assert {float(walk.cpu)} == set(cpu.samples), walk
        assert {float(walk.gpu)} == set(gpu.samples), walk
        assert (float(walk.cpu), float(walk.gpu)) == (cpu.median, gpu.median), walk


def test_a_sample_is_the_time_of_the_kernels_but_for_what_begins_and_ends_a_block(walks):
    for walk, kind in product(walks, ("cpu", "gpu")):
        found, timing, kernels = getattr(walk.found, kind), walk.timing(kind), walk.kernels(kind)
        edge = timing.synchronize + timing.launch
        launched = len(kernels) * timing.launch
        least = sum(kernels) + launched if kind == "cpu" else max(sum(kernels), launched)
        most = least if kind == "cpu" else sum(max(each, timing.launch) for each in kernels)
        over = Fraction(found.median) * (1 + Fraction(1, 10**12))
        assert least <= over, walk
        assert Fraction(found.median) <= (most + edge / found.block_calls) * (1 + Fraction(1, 10**12)), walk


def test_a_block_is_as_long_as_the_plan_says_and_holds_no_more_calls_than_that_takes(walks):
    for walk, kind in product(walks, ("cpu", "gpu")):
        found, timing = getattr(walk.found, kind), walk.timing(kind)
        shortest = max(walk.case.plan.sampling.block_time, float(20 * timing.synchronize), 100 * STEP)
        assert pytest.approx(shortest, rel=1e-5) == float(found.block_time), walk  # a step is of two readings
        assert found.median * found.block_calls >= shortest * (1 - 1e-5), walk
        if found.block_calls > 1:
            per_call = run(kind, walk.kernels(kind), timing, found.block_calls) / found.block_calls
            fewer = found.block_calls - 1
            once, twice = (run(kind, walk.kernels(kind), timing, calls) for calls in (fewer, 2 * fewer))
            beside, each = 2 * once - twice + timing.synchronize, (twice - once) / fewer
            fills_too_little = kind == "gpu" and 100 * beside > fewer * each * (1 - 1e-9)
            assert fewer * per_call <= 1.1 * shortest or fills_too_little, walk


def test_latencies_are_the_true_times_of_calls_that_are_waited_for(walks):
    for walk in walks:
        assert {float(walk.cpu_latency)} == set(walk.found.cpu.waited_for), walk
        assert {float(walk.gpu_latency)} == set(walk.found.gpu.waited_for), walk
        assert true(walk.gpu_latency) == walk.found.gpu.latency, walk


def test_the_phases_before_timing_took_what_was_built_in(walks):
    for walk, kind in product(walks, ("cpu", "gpu")):
        found, timing = getattr(walk.found, kind), walk.timing(kind)
        setup = sum(walk.case.up) / (timing.upload or timing.bandwidth)
        setup += run(kind, kernels(timing, walk.case.made), timing) + timing.synchronize
        assert true(setup) == found.setup, walk
        assert true(walk.first_call(kind)) == found.first_call, walk
        assert timing.synchronize == found.synchronize_cost, walk


def test_the_devices_own_times_are_those_of_the_kernels_and_of_their_launches(walks):
    for walk in walks:
        seen, timing = walk.found.gpu.inspection, walk.case.gpu
        assert true(sum(walk.kernels("gpu"))) == seen.device_time == walk.found.gpu.device_time, walk
        assert true((1 + len(walk.case.down)) * timing.launch) == seen.host_time, walk
        assert (False, 0.0) == (seen.synchronizes, seen.outside_time), walk


def test_the_bytes_are_those_that_went_up_and_that_come_down(walks):
    for walk in walks:
        case, moved = walk.case, walk.found.transfer
        assert (sum(case.up), len(case.up)) == (moved.h2d.bytes, moved.h2d.arrays), walk
        assert (sum(case.down), len(case.down)) == (moved.d2h.bytes, moved.d2h.arrays), walk
        assert (case.made, walk.bytes) == (moved.made, moved.bytes), walk


def test_copies_take_their_bytes_over_the_bandwidth_and_the_waits(walks):
    for walk in walks:
        moved = walk.found.transfer
        assert (true(walk.up), true(walk.down)) == (moved.h2d.median, moved.d2h.median), walk
        assert true(walk.up + walk.down) == moved.median, walk
        for copies, time in ((moved.h2d, walk.up), (moved.d2h, walk.down)):
            expected = true(copies.bytes / time) if copies.bytes else None
            assert expected == copies.bandwidth, walk


def test_a_call_with_its_copies_is_timed_as_a_loop_makes_it(walks):
    for walk in walks:
        loop, demand = walk.found.transfer.loop, walk.case.demand
        is_timed = demand.transfer != "never" or walk.gpu <= 0.01
        assert bool(loop) == bool(walk.bytes and is_timed), walk
        assert set(loop) <= {float(walk.gated[1] + walk.copies)}, walk


def test_without_waits_the_bandwidth_is_the_devices():
    case = replace(drawn(1), up=(12_345, 678), down=(91_011,), variants=False)
    gpu = replace(case.gpu, synchronize=0, bandwidth=Fraction(10**9), upload=Fraction(10**8))
    moved = replace(case, gpu=gpu).walk().transfer
    assert (true(1e8), true(1e9)) == (moved.h2d.bandwidth, moved.d2h.bandwidth)


def test_the_speedup_is_that_of_the_gated_times(walks):
    for walk in walks:
        assert true(walk.speedup) == walk.found.speedup.value, walk


def test_every_regime_has_its_true_speedup(walks):
    for walk in walks:
        for regime, speedup in walk.speedups.items():
            found = getattr(walk.found.offload, regime)
            assert (found and found.value) == (true(speedup) if speedup else None), (regime, walk)


def test_every_range_is_the_truth_and_what_is_certain_is_wider_by_the_factor_of_a_look(walks):
    for walk in walks:
        for regime, speedup in (*walk.speedups.items(), ("gated", walk.speedup)):
            found = walk.found.speedup if regime == "gated" else getattr(walk.found.offload, regime)
            if speedup is None or found.rounds == 1:
                continue
            assert true(speedup) == found.low == found.high, (regime, walk)
            seconds = walk.found.rounds_elapsed if found.rounds == walk.found.speedup.rounds else 0.0
            factor = looks.at_end(found.rounds, seconds).misses
            ends = true(speedup / Fraction(factor)), true(speedup * Fraction(factor))
            assert ends == (found.certain.low, found.certain.high), (regime, walk)


def test_what_was_found_of_the_demand_is_true(walks):
    """What nothing requires is open within the factor that a limit is met by after so short a time."""
    for walk in walks:
        demand, offload = walk.case.demand, walk.found.offload
        meets = (demand.min or 0) < walk.speedup < (demand.max or inf)
        expected = "recorded" if not demand.limits else "passed" if meets else "failed"
        if walk.found.status == "inconclusive":
            assert min(abs(log(walk.speedup / limit)) for limit in demand.limits) <= log(1.01), walk
        else:
            assert expected == walk.found.status, walk
        factor = looks.at_end(walk.found.speedup.rounds, walk.found.rounds_elapsed).meets
        for said, limit in ((offload.faster, 1), (offload.worth, walk.case.plan.cost_ratio)):
            is_open = abs(log(walk.speedup / Fraction(limit))) <= log(factor)
            assert said is (None if is_open else walk.speedup > limit), walk


def whole(calls: Fraction) -> set[int]:
    """Return the next whole number of calls, or both where rounding may take one for the other."""
    near = round(calls)
    return {near, near + 1} if 0 < abs(calls - near) <= max(1e-6, 1e-8 * calls) else {ceil(calls)}


def test_costs_are_earned_back_after_the_true_number_of_calls(walks):
    for walk in walks:
        cpu, gpu = walk.gated
        even = walk.found.offload.break_even_calls
        for name, cost in walk.costs.items():
            found = getattr(even, name)
            if cpu <= gpu:
                assert found is None, (name, walk)
                continue
            assert found.value in whole(cost / (cpu - gpu)), (name, walk)
            assert {found.low, found.high} <= whole(cost / (cpu - gpu)), (name, walk)
        assert (even.reason is None) == (cpu > gpu), walk


def test_the_memory_is_that_of_the_inputs_and_of_what_a_call_holds(walks):
    for walk in walks:
        case, memory = walk.case, walk.found.memory
        inputs = sum(case.up) + case.made
        assert (inputs, inputs + case.scratch + sum(case.down)) == (memory.inputs, memory.peak), walk


@pytest.fixture(scope="module")
def bodies(long_waits) -> list[Walk]:
    """Walks whose whole body, with the copies that it makes, is the workload."""
    cases = []
    for seed in range(BODIES):
        case = drawn(10_000 + seed)
        demand = structs.replace(case.demand, transfer="never", calls=None)
        cases.append(replace(case, demand=demand, down=case.down or (1000,), extra=Fraction(0)))
    return [Walk(case, case.walk(case.whole)) for case in cases]


def of_the_body(walk, kind) -> Fraction:
    """Return the seconds until one body has copied, worked, and copied each result back when it is there."""
    case, timing = walk.case, walk.timing(kind)
    up = sum(case.up) / (timing.upload or timing.bandwidth)
    down = sum(case.down) / timing.bandwidth + len(case.down) * timing.synchronize
    return up + run(kind, walk.kernels(kind), timing) + down


def test_the_copies_of_a_whole_body_are_in_its_time(bodies):
    for walk, kind in product(bodies, ("cpu", "gpu")):
        found, timing = getattr(walk.found, kind), walk.timing(kind)
        body, wait = of_the_body(walk, kind), timing.synchronize
        assert {float(body + wait / found.block_calls)} == set(found.samples), walk
        assert true(body + wait) == found.first_call, walk
        assert {float(body + wait)} == set(found.waited_for), walk


def test_a_whole_body_is_the_only_regime_that_it_has(bodies):
    for walk in bodies:
        offload, moved, memory = walk.found.offload, walk.found.transfer, walk.found.memory
        cpu, gpu = walk.found.cpu, walk.found.gpu
        latency, blocks = cpu.latency / gpu.latency, cpu.median / gpu.median
        assert true(latency if walk.case.demand.latency else blocks) == walk.found.speedup.value, walk
        assert true(latency) == offload.latency.value, walk
        assert ("body", None, None) == (offload.regime, moved.h2d, moved.d2h), walk
        assert (None, None, None) == (offload.never, offload.once, offload.always), walk
        assert offload.break_even_calls is None, walk
        held = sum(walk.case.up) + walk.case.scratch + sum(walk.case.down)
        assert (0, held) == (memory.inputs, memory.peak), walk


def test_without_a_gpu_the_cpus_time_and_the_bytes_are_the_same(walks):
    for walk in walks[:15]:
        case, (cpu, _) = walk.case, walk.case.devices()
        trial = Trial(nodeid="test_it", demand=case.demand, options=case.plan)
        trial.time_alone(partial(partial, case.body), cpu, seconds=0.1)
        trial.secondary.describe_copies()
        alone = trial.record(Verdict(status="skipped", reason="no GPU"))
        assert walk.found.cpu.median == alone.cpu.median, walk
        assert (walk.bytes, case.made) == (alone.transfer.bytes, alone.transfer.made), walk


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """One workload in several sizes, with the true speedup at each."""

    seed: int
    truth: dict[int, Fraction]
    demand: Demand
    at_least: float | None
    at_most: float | None

    def find(self):
        """Measure every size in an order of its own, and return the threshold."""
        order = list(self.truth)
        Random(self.seed).shuffle(order)  # noqa: S311 - as above
        (found,) = threshold.find(self.record(size) for size in order)
        return found

    def record(self, size) -> Record:
        """Measure one size; half of what the GPU takes, as demanded, are its copies where they count."""
        demand, cpu = self.demand, Fraction(size, 10**5)
        half = cpu / self.truth[size] / 2
        copies = half * (demand.calls or 1)
        asked = {"at_least": self.at_least, "at_most": self.at_most}
        exact = {"launch": Fraction(0), "synchronize": Fraction(0)}
        kernel = half if demand.transfer == "never" else half / 2
        case = Case(
            seed=self.seed,
            cpu=Timing(kernel=cpu / 2, **exact),  # one for the scratch, one for the result
            gpu=Timing(kernel=kernel, bandwidth=16 / copies, **exact),
            up=(8,),
            down=(8,),
            made=0,
            scratch=0,
            extra=Fraction(0),
            demand=demand,
            plan=RunOptions(max_time=100.0, sampling=SamplingPlan(block_time=1e-5, secondary_time=1e-3)),
            variants=self.seed % 4 == 0,
        )
        return case.walk(
            size_group=SizeGroup(name="test_it", parameter="n", size=size, sizes=tuple(self.truth), **asked)
        )

    def states(self) -> dict[int, set[bool]]:
        """Return whether the GPU wins at each size; a hundredth is more than clocks can tell."""
        return {
            size: {True, False} if Fraction(100, 101) <= speedup <= Fraction(101, 100) else {speedup > 1}
            for size, speedup in self.truth.items()
        }

    def thresholds(self) -> list[float]:
        """Return what the threshold is if the doubts were settled in one way or another, every way."""
        return [smallest(list(self.truth), wins) for wins in product(*self.states().values())]


def smallest(sizes, wins) -> float:
    """Return the smallest size from which all are won, by the definition of GPU-BLOB."""
    return next((size for place, size in enumerate(sizes) if all(wins[place:])), inf)


def size_group(seed) -> Sizes:
    """Draw a workload that loses at small sizes and wins at large ones, but for a few odd ones."""
    draws = Random(20_000 + seed)  # noqa: S311 - as above
    sizes = sorted(draws.sample(range(1, 200), draws.randint(1, 7)))
    first_won = draws.randint(0, len(sizes))
    truth = {}
    for place, size in enumerate(sizes):
        clear = Fraction(exp(draws.uniform(log(1.02), log(20))))
        kind = draws.choice(["as expected"] * 5 + ["odd", "in doubt"])
        if kind == "in doubt":
            truth[size] = Fraction(draws.uniform(0.992, 1.008))
        else:
            truth[size] = clear if (place >= first_won) == (kind == "as expected") else 1 / clear
    likely = [sizes[min(first_won, len(sizes) - 1)], draws.choice(sizes)]
    limits = sorted(size + draws.choice([0, 0, 0.5]) for size in draws.choices(likely, k=2))
    transfer = draws.choice(["never", "once", "always"])
    return Sizes(
        seed=seed,
        truth=truth,
        demand=Demand(
            min=draws.choice([None, 0.5, 2.0]),
            transfer=transfer,
            calls=draws.randint(1, 100) if transfer == "once" else None,
            latency=draws.random() < 0.3,
        ),
        at_least=draws.choice([None, limits[0]]),
        at_most=draws.choice([None, limits[1]]),
    )


@pytest.fixture(scope="module")
def size_groups(long_waits):
    drawn = [size_group(seed) for seed in range(SIZE_GROUPS)]
    return [(sizes, sizes.find()) for sizes in drawn]


def test_the_size_groups_are_varied(size_groups):
    outcomes = [found.outcome for _, found in size_groups]
    assert min(outcomes.count(each) for each in ("bracket", "none", "not_monotone")) >= 5, outcomes
    for limit in ("at_least", "at_most"):
        assert sum({getattr(sizes, limit)} == set(sizes.thresholds()) for sizes, _ in size_groups) >= 1, limit
    statuses = [found.status for _, found in size_groups]
    expected = "passed", "failed", "inconclusive", "recorded"
    assert min(statuses.count(each) for each in expected) >= 4, statuses


def test_the_bracket_holds_the_true_threshold_and_nothing_between_its_ends_was_measured(size_groups):
    for sizes, found in size_groups:
        surely = max(sizes.thresholds())
        below = [size for size in sizes.truth if size < surely]
        assert (surely if surely < inf else None) == found.smallest_won, sizes
        assert max(below, default=None) == found.largest_not_won, sizes


def test_the_outcome_says_whether_a_size_is_lost_above_one_that_is_won(size_groups):
    for sizes, found in size_groups:
        states = list(sizes.states().values())
        mixed = any(low == {True} and {False} in states[place:] for place, low in enumerate(states))
        expected = "not_monotone" if mixed else "bracket" if max(sizes.thresholds()) < inf else "none"
        assert expected == found.outcome, sizes


def test_a_threshold_passes_or_fails_when_it_does_however_the_doubts_are_settled(size_groups):
    for sizes, found in size_groups:
        asked, possible = [], sizes.thresholds()
        if sizes.at_least is not None:
            asked.append({each >= sizes.at_least for each in possible})
        if sizes.at_most is not None:
            asked.append({each <= sizes.at_most for each in possible})
        expected = "recorded" if not asked else "passed"
        if {True, False} in asked:
            expected = "inconclusive"
        if {False} in asked:
            expected = "failed"
        assert expected == found.status, sizes
        assert (found.reason is None) == (expected in ("passed", "recorded")), sizes


def test_the_curve_holds_the_true_speedups(size_groups):
    for sizes, found in size_groups:
        demand = sizes.demand
        assert list(sizes.truth) == [point.size for point in found.curve], sizes
        assert (demand.transfer, demand.latency) == (found.regime, found.by_latency), sizes
        for point in found.curve:
            truth = sizes.truth[point.size]
            assert true(truth) == point.speedup.value, sizes
            assert point.speedup == getattr(point, demand.transfer), sizes
            assert (true(truth), true(truth)) == (point.speedup.low, point.speedup.high), sizes
            assert true(point.size / 1e5) == point.cpu, sizes
            resident = 2 if demand.transfer != "never" else 1
            assert true(resident * truth) == point.never.value, sizes
            assert true(resident * truth) == point.latency.value, sizes
            possible = sizes.states()[point.size]
            assert (None if len(possible) > 1 else possible == {True}) == point.won, sizes


@pytest.mark.parametrize(
    ("function", "elements"),
    [(lambda a: np.histogram(a, bins=10), 10 + 11), (np.linalg.svd, 10 * 10 + 5 + 5 * 5), (np.split, None)],
)
def test_a_kernel_that_makes_arrays_of_unequal_shapes_costs_what_all_of_them_do(function, elements):
    clock = Clock()
    device = SimulatedDevice("cpu", clock=clock, timing=Timing(kernel=1.0, per_element=0.5))
    a = device.asarray(np.arange(50.0).reshape(10, 5))
    started = clock()
    result = function(a) if elements else np.split(a, [3])
    assert clock() - started == pytest.approx(1.0 + 0.5 * (elements or 50))
    assert all(device.holds(part) for part in result)
    assert getattr(result, "_fields", None) in (None, ("U", "S", "Vh"))
