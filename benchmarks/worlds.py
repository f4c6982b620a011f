"""A CPU and a GPU on one simulated clock that are slow in the ways that devices are: `--gpuperf-gpu=world`.

Noise that lasts is a function of simulated time, so that waiting lets it change; other noise is drawn for
each block, and the rest goes by calls. The plugin does not know these devices for simulated ones, and treats
them as real. A test gets its call by `call(kind, run)`, on devices that are made anew for each run.
"""

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from math import ceil, exp, floor, inf, log, pi, sin, sqrt
from pathlib import Path
from random import Random
from statistics import fmean, median
from typing import Any

import numpy as np
import pytest
from coupling import Coupling, Quota

from pytest_gpuperf.devices.environment import Quota as ProcessQuota
from pytest_gpuperf.devices.protocol import Backend, Observation, TimedDevice
from pytest_gpuperf.model.demand import Kind
from pytest_gpuperf.model.measurement import DeviceInfo

SMALL = 0.01  # the noise of a device that has no other
IDLE = 0.02  # seconds without work after which a GPU has lowered its clocks
BETWEEN = 0.1  # seconds between two tests
DRAWS = 20_000  # of independent rounds, for their true median
EXACT = 1e-9  # of a tick, by which sums of floats may be off
SHARE = 0.4  # of the time that is slow where levels change

# ---------------------------------------------------------------------------------------------------------
# Noise: what a source of chance makes of it
# ---------------------------------------------------------------------------------------------------------

Drawn = Callable[[], float]
"""Returns the log of the factor by which the next block is slower."""
Lasting = Callable[[float, float], float]
"""Returns the log of the factor by which a call is slower, from when it starts and how long it takes."""
DrawnShape = Callable[[Random], Drawn]
LastingShape = Callable[[Random], Lasting]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The logs of consecutive block times of one workload, over their median."""

    name: str
    logs: tuple[float, ...]


def read_traces(folder: Path) -> list[Trace]:
    """Return the traces of a folder of CSV files with `seconds_per_call`."""
    traces = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            times = [float(row["seconds_per_call"]) for row in csv.DictReader(file)]
        middle = median(times)
        traces.append(Trace(name=path.stem, logs=tuple(log(seconds / middle) for seconds in times)))
    if len(traces) < 2:
        raise SystemExit(f"{folder}: two traces or more are needed, as CSV files")
    return traces


def normal(spread: float, chance: Random) -> Drawn:
    return partial(chance.gauss, 0.0, spread)


STILL = partial(normal, SMALL)


def lognormal(percent: float, chance: Random) -> Drawn:
    """A relative standard deviation of so many percent."""
    return normal(sqrt(log(1 + (percent / 100) ** 2)), chance)


def pareto(tail: float, chance: Random) -> Drawn:
    return lambda: log(chance.paretovariate(tail))


def bimodal(factor: float, share: float, chance: Random) -> Drawn:
    return lambda: (log(factor) if chance.random() < share else 0.0) + chance.gauss(0.0, SMALL)


def replayed(trace: Trace, chance: Random) -> Drawn:
    """The consecutive values of a trace, from a random start, and from its beginning again after its end."""
    return islice(cycle(trace.logs), chance.randrange(len(trace.logs)), None).__next__


def levels(factor: float, relaxation: float, chance: Random) -> Lasting:
    """Slower by a factor in a share of the time; the past is forgotten with so many seconds."""
    slow, asked, height = chance.random() < SHARE, 0.0, log(factor)

    def step(now: float, _: float) -> float:
        nonlocal slow, asked
        slow = chance.random() < SHARE + (slow - SHARE) * exp((asked - now) / relaxation)
        asked = now
        return height if slow else 0.0

    return step


def spells(factor: float, seconds: float, chance: Random) -> Lasting:
    """Slower by a factor in a share of the time, in spells of so many seconds on average."""
    return levels(factor, (1 - SHARE) * seconds, chance)


def autoregressive(spread: float, relaxation: float, chance: Random) -> Lasting:
    state, asked = chance.gauss(0.0, spread), 0.0

    def step(now: float, _: float) -> float:
        nonlocal state, asked
        kept = exp((asked - now) / relaxation)
        state = kept * state + sqrt(1 - kept * kept) * chance.gauss(0.0, spread)
        asked = now
        return state

    return step


def drift(amplitude: float, period: float, chance: Random) -> Lasting:
    start = chance.random()
    return lambda now, _: amplitude * sin(2 * pi * (now / period + start))


def periodic(hertz: float, share: float, factor: float, chance: Random) -> Lasting:
    """Slower by a factor in the same share of each period: the mean over the call's own time."""
    start = chance.random()

    def slow_until(periods: float) -> float:
        return floor(periods) * share + min(periods % 1, share)

    def step(now: float, seconds: float) -> float:
        begun, length = now * hertz + start, seconds * hertz
        return log(1 + (factor - 1) * (slow_until(begun + length) - slow_until(begun)) / length)

    return step


# ---------------------------------------------------------------------------------------------------------
# Devices
# ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What a call costs on one device, in seconds.

    A GPU's call takes `host` seconds until it returns, and `seconds` on the device after that. `turns` are
    the factors of calls in turn; `seconds` is their mean. The first `cold_calls` are `cold_factor` times
    slower. A GPU that has idled works `ramp_factor` times slower for its next `ramp` seconds of work. A wait
    for it takes `wake` seconds more where it had work, and ends at the next of the ticks at which the host
    looks, if it `polls` so often: by the clock, or from when it began to wait if `polls_from_wait`. The
    device's own clock shows multiples of `tick` alone. The machine of a CPU stands still once, for `stop`
    seconds, in a call 0.5 to 1.5 s after the first. `coupled` makes what the devices' turns change of each
    other; in a loop of its own a call is `loop_factor` times slower for it.
    """

    seconds: float
    host: float = 0.0
    drawn: DrawnShape = STILL
    lasting: LastingShape | None = None
    turns: tuple[float, ...] = (1.0,)
    cold_calls: int = 0
    cold_factor: float = 1.0
    ramp: float = 0.0
    ramp_factor: float = 1.0
    wake: float = 0.0
    coupled: Callable[[], Coupling] = Coupling
    loop_factor: float = 1.0
    polls: float = 0.0
    polls_from_wait: bool = False
    tick: float = 0.0
    stop: float = 0.0

    @property
    def steady(self) -> float:
        """The seconds of a call in a long loop, without noise."""
        return self.loop_factor * max(self.host, self.seconds)

    def deviation(self, chance: Random) -> Iterator[float]:
        """Yield the logs of the factors of blocks far apart."""
        drawn, lasting = self.drawn(chance), self.lasting(chance) if self.lasting else None
        now = 0.0
        while True:
            now += 1e3 * (1 + chance.random())
            yield drawn() + (lasting(now, self.seconds) if lasting else 0.0)


def true_ratio(cpu: Side, gpu: Side, chance: Random) -> float:
    """Return the median of CPU time / GPU time, from independent rounds where noise may move it."""
    ratio = cpu.steady / gpu.steady
    if same_noise(cpu, gpu):
        return ratio
    pairs = islice(zip(cpu.deviation(chance), gpu.deviation(chance), strict=True), DRAWS)
    return ratio * exp(median(one - other for one, other in pairs))


def same_noise(cpu: Side, gpu: Side) -> bool:
    """Return whether both sides have the same noise, whose ratio then has a median of 1."""
    shapes = [
        [(shape.func, shape.args) for shape in (side.drawn, side.lasting) if isinstance(shape, partial)]
        for side in (cpu, gpu)
    ]
    return shapes[0] == shapes[1]


class Clock:
    """A clock that only the devices of a world advance."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now


class WorldDevice(TimedDevice):
    """A device of the world; the CPU is done when a call returns, the GPU works on a stream."""

    backend = "world"
    xp = np
    arrays_are_on_host = True

    def __init__(self, kind: Kind, clock: Clock) -> None:
        self.kind = kind
        self.name = f"{kind.upper()} of the world"
        self.now = clock
        self.info: DeviceInfo = DeviceInfo(
            kind=kind, backend=self.backend, name=self.name, library="simulated time"
        )
        self.calls = 0
        self._done = 0.0  # when the stream is done
        self.other: WorldDevice | None = None
        self.begin(Side(seconds=1e-3), Random(0))  # noqa: S311 - a simulation

    def begin(self, side: Side, chance: Random) -> None:
        """Go on as this side, in a state of its own."""
        mean = fmean(side.turns)
        self._side, self._is_gpu = side, self.kind == "gpu"
        self._drawn = side.drawn(chance)
        self._lasting = side.lasting(chance) if side.lasting else None
        self._turns = cycle([turn / mean for turn in side.turns]) if len(side.turns) > 1 else None
        self._cold = side.cold_calls
        self._ramping = 0.0
        self.coupling = side.coupled()
        self._factor, self._is_new_block, self._has_work = 1.0, True, False
        self._stops_at = self.now.now + 0.5 + chance.random() if side.stop else inf
        if self._turns is not None:
            next(islice(self._turns, chance.randrange(len(side.turns)), None))

    def clock(self) -> float:
        """Return the time that the device's own clock shows."""
        tick = self._side.tick
        return floor(self.now.now / tick + EXACT) * tick if tick else self.now.now

    def enqueue(self) -> None:
        """Make one call."""
        self.calls += 1
        side, clock = self._side, self.now
        if self._is_new_block:
            self._is_new_block, self._factor = False, exp(self._drawn())
        factor = self._factor
        if self._turns is not None:
            factor *= next(self._turns)
        if self._cold:
            self._cold -= 1
            factor *= side.cold_factor
        if not self._is_gpu:
            if self._lasting is not None:
                factor *= exp(self._lasting(clock.now, side.seconds))
            begun = clock.now
            clock.now += self.coupling.work(begun, side.seconds * factor)
            self._tell(begun, clock.now)
            if clock.now > self._stops_at:
                self._stops_at = inf
                clock.now += side.stop
            return
        clock.now += self.coupling.submission(clock.now, side.host * factor)
        begun = max(clock.now, self._done)
        if self._lasting is not None:
            factor *= exp(self._lasting(begun, side.seconds))
        seconds = side.seconds * factor
        if side.ramp:
            seconds = self._ramped(seconds, begun - self._done)
        self._done = begun + self.coupling.work(begun, seconds)
        self._tell(begun, self._done)
        self._has_work = True

    def _tell(self, begun: float, ended: float) -> None:
        """Tell both devices' couplings of work."""
        self.coupling.worked(begun, ended)
        if self.other is not None:
            self.other.coupling.other_worked(begun, ended)

    def _ramped(self, seconds: float, idle: float) -> float:
        """Return the seconds of so much steady work after so long without any."""
        side = self._side
        if idle > IDLE:
            self._ramping = side.ramp
        slow = min(self._ramping, seconds * side.ramp_factor)
        self._ramping -= slow
        return slow + seconds - slow / side.ramp_factor

    def synchronize(self) -> None:
        """Wait for the stream; what is submitted after that is a new block."""
        self._is_new_block = True
        if self._has_work:
            self._has_work = False
            begun = self.now.now
            self.now.now = max(begun, self._done) + self._side.wake
            if polls := self._side.polls:
                origin = begun if self._side.polls_from_wait else 0.0
                self.now.now = origin + ceil((self.now.now - origin) / polls - EXACT) * polls

    def quota(self) -> ProcessQuota | None:
        """Return the quota of the CPU's processor time."""
        return self.coupling.limit() if isinstance(self.coupling, Quota) else None

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        self.now.now += seconds

    @contextmanager
    def observe(self) -> Iterator[Observation]:
        """Count calls; time the stream."""
        observation, calls, begun = Observation(), self.calls, max(self._done, self.now.now)
        yield observation
        observation.worked = self.calls > calls
        if self._is_gpu:
            observation.device_time = max(0.0, self._done - begun)

    def asarray(self, host: Any) -> Any:
        """Return a copy: copies take no time."""
        return np.array(host)

    def asnumpy(self, array: Any) -> Any:
        """Return a copy: copies take no time."""
        return np.array(array)

    def holds(self, value: Any) -> bool:  # noqa: ARG002 - the protocol passes it
        """Return whether an array is here: no call makes one."""
        return False

    def fault(self, error: BaseException) -> None:
        """Recognize no fault: there is none."""

    def release(self) -> None:
        """Do nothing: no memory is held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What both devices are in one session; with `traces`, each run replays two of them.

    The GPU of the scene is slower by `loss`. `seed` begins the name of each run's chance.
    """

    cpu: Side
    gpu: Side
    seed: str
    traces: Sequence[tuple[Trace, Trace]] = ()
    loss: float = 1.0

    def sides(self, run: int) -> tuple[Side, Side]:
        """Return the sides of one run."""
        cpu, gpu = self.cpu, replace(self.gpu, seconds=self.gpu.seconds / self.loss)
        if self.traces:
            one, other = self.traces[run % len(self.traces)]
            cpu = replace(cpu, drawn=partial(replayed, one))
            gpu = replace(gpu, drawn=partial(replayed, other))
        return cpu, gpu


class World(Backend):
    """A plugin for one session: it brings the devices, and is the backend, too."""

    name = "world"

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._clock = Clock()
        self._cpu, self._gpu = (WorldDevice(kind, self._clock) for kind in ("cpu", "gpu"))
        self._cpu.other, self._gpu.other = self._gpu, self._cpu
        self._run: int | None = None
        self._runs = 0
        global _current  # the tests of a session find it here
        _current = self

    @pytest.hookimpl
    def pytest_gpuperf_devices(self) -> list["World"]:
        """Return this backend."""
        return [self]

    @property
    def seconds(self) -> float:
        """The mean simulated seconds of a run as a whole: warm-up, rounds, and what else is measured."""
        return self._clock.now / self._runs - BETWEEN if self._runs else 0.0

    def check(self, selector: str) -> None:
        """Accept anything: there is one GPU."""

    def gpu(self, selector: str) -> WorldDevice:  # noqa: ARG002 - the protocol passes it
        """Return the GPU."""
        return self._gpu

    def cpu(self) -> WorldDevice:
        """Return the CPU."""
        return self._cpu

    def recognizes(self, value: Any) -> Kind | None:
        """Return which device a value of a suite's own parameter means."""
        kinds: dict[str, Kind] = {"world_cpu": "cpu", "world_gpu": "gpu"}
        return kinds.get(value) if isinstance(value, str) else None

    def call(self, kind: Kind, run: int) -> Callable[[], None]:
        """Return the call of a run on a device; the first of them makes both devices anew."""
        if run != self._run:
            self._run = run
            self._runs += 1
            self._clock.now += BETWEEN
            chance = Random(f"{self.scene.seed} {run}")  # noqa: S311 - a simulation
            for device, side in zip((self._cpu, self._gpu), self.scene.sides(run), strict=True):
                device.begin(side, chance)
        enqueue = (self._cpu if kind == "cpu" else self._gpu).enqueue

        def call() -> None:
            enqueue()

        return call


_current: World | None = None


def call(kind: Kind, run: int) -> Callable[[], None]:
    """Return the call of a run on a device of the session's world."""
    assert _current is not None
    return _current.call(kind, run)
