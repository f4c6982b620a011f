"""From a record to the cost of so many calls on each device, and where the GPU's start-up has paid off."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from statistics import median

from pytest_gpuperf.model import units
from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.report.html import plot
from pytest_gpuperf.report.html.figure import Figure, Mark, Place, Style, Word, bar, line, rule
from pytest_gpuperf.report.html.plot import Plot
from pytest_gpuperf.report.scale import LogScale

_LEFT, _TOP = 54.0, 36.0
_HEIGHT = 130.0
_FEWEST = 10.0  # calls at the right end of the axis
_BEYOND = 10.0  # times the crossing: so far the axis goes on
_FARTHEST = 1e15
_AROUND_THE_BEND = (0.1, 0.3, 0.6, 1.0, 1.7, 3.0, 10.0)
_LEGEND_MARKS, _LEGEND_WORDS = plot.legend([("cpu", "CPU"), ("gpu", "GPU")], 8)
_AT_ONCE = "The GPU has no start-up to pay off"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cost:
    """Seconds of k calls: those before the first and those of each."""

    start: float
    call: float

    def of(self, calls: float) -> float:
        return self.start + calls * self.call


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """The costs on both devices, of which `calls` are the crossing; `start` says what the start-up is."""

    cpu: _Cost
    gpu: _Cost
    calls: Estimate
    start: str


def figure(record: Record) -> Figure | None:
    """Return both devices' cost of k calls, with the range of the k from which the GPU's is lower.

    The GPU's begins with what its first call took longer than a later one, and with the copies, once for all
    calls: what `BreakEven.both` is about, or `first_call` where the copies were not timed. None where there
    is no crossing, and where the first call has paid off already, which takes no figure to say.
    """
    case = _case(record)
    if case is None or case.calls.upper <= 1:
        return None
    last = _last(case.calls)
    costs = [case.cpu, case.gpu]
    x = LogScale(1.0, last, plot.WIDTH - _LEFT - 12)
    ends = [cost.of(calls) for cost in costs for calls in (1.0, last)]
    box = Plot(left=_LEFT, top=_TOP, x=x, y=LogScale.around(ends, _HEIGHT, include=()))
    ticks = box.y.ticks(5)
    marks, words = [*_crossing(case.calls, box), box.grid(ticks), *_LEGEND_MARKS], [*_LEGEND_WORDS]
    marks += _line("cpu", case.cpu, box, last)
    marks += _line("gpu", case.gpu, box, last)
    if case.calls.value:
        words.append(box.beside(box.place(case.calls.value, None)[0], _TOP - 6, _calls(case.calls)))
    words += box.words_left(ticks, plot.time)
    words += box.words_below((tick, plot.number(tick)) for tick in x.ticks(6))
    words.append(Word(box.right, box.bottom + 26, "calls", "end"))
    return Figure(
        width=plot.WIDTH,
        height=box.bottom + 32,
        finding=_finding(case),
        marks=marks,
        words=words,
        caption=f"Time of k calls; the GPU's begins with {case.start}.",
    )


def _case(record: Record) -> _Case | None:
    even = record.offload.break_even_calls if record.offload else None
    if even is None or record.cpu is None or record.gpu is None:
        return None
    calls = [record.cpu.samples_for(record.demand), record.gpu.samples_for(record.demand)]
    if not all(calls):
        return None
    on_cpu, on_gpu = map(median, calls)
    startup = record.gpu.startup or 0.0
    copies = _copies(record, calls[1])
    crossing = even.first_call if copies is None else even.both
    if crossing is None:
        return None
    start = f"what its first call took longer than a later one ({units.seconds(startup)})"
    if copies:
        start = f"its copies ({units.seconds(copies)}), once, and {start}"
    return _Case(
        cpu=_Cost(start=0.0, call=on_cpu),
        gpu=_Cost(start=startup + (copies or 0.0), call=on_gpu),
        calls=crossing,
        start=start,
    )


def _copies(record: Record, calls: Sequence[float]) -> float | None:
    """Return the seconds that the copies add to a call; None where they were not timed."""
    transfer = record.transfer
    if transfer is None or transfer.bytes == 0:
        return 0.0 if transfer else None
    added = transfer.beside(calls)
    return max(0.0, median(added)) if added else None


def _last(calls: Estimate) -> float:
    """Return the right end of the axis of calls."""
    beyond = max(_BEYOND * calls.value, min(2 * (calls.high or 0.0), _BEYOND**2 * calls.value))
    return min(max(_FEWEST, beyond), _FARTHEST)


def _curve(cost: _Cost, box: Plot, last: float) -> list[Place]:
    """Return the places of a cost, close together around its bend, where calls cost as much as the start."""
    bend = cost.start / cost.call if cost.call > 0 else inf
    between = (share * bend for share in _AROUND_THE_BEND)
    return [box.place(calls, cost.of(calls)) for calls in (1.0, *between, last) if 1.0 <= calls <= last]


def _line(style: Style, cost: _Cost, box: Plot, last: float) -> Iterator[Mark]:
    """Yield a line, with its shape at both ends."""
    places = _curve(cost, box, last)
    yield Mark(style, line(*places))
    yield Mark(style, "".join(plot.SHAPES[style](*place) for place in (places[0], places[-1])), filled=True)


def _crossing(calls: Estimate, box: Plot) -> Iterator[Mark]:
    """Yield the range of the crossing, and the crossing."""
    low, middle, high = (box.place(end, None)[0] for end in (calls.lower, calls.value, calls.upper))
    yield Mark("muted", bar(low, _TOP, max(high - low, 1), box.y.length), filled=True, faint=True)
    if calls.value:
        yield Mark("verdict", rule(middle, _TOP, box.bottom))


def _calls(calls: Estimate) -> str:
    """Return the crossing with its range: `12 calls [9, 20]`."""
    return f"{_count(calls.value)} {units.interval(calls.low, calls.high, plot.number)}"


def _count(calls: float) -> str:
    return f"{plot.number(calls)} {'call' if calls == 1 else 'calls'}"


def _finding(case: _Case) -> str:
    return f"The GPU's start-up pays off after {_calls(case.calls)}" if case.calls.value else _AT_ONCE
