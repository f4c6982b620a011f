"""The charts of a run's times over bytes: each test beside what a plain copy of as many bytes takes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import KINDS, Kind
from pytest_gpuperf.model.measurement import DeviceInfo
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.report.html import chart
from pytest_gpuperf.report.html.chart import Axis, Line
from pytest_gpuperf.report.html.figure import Figure

_FEWEST_SIZES = 3  # of fewer, a line says no more than the table
_MOST_BYTES = 1e30  # beyond are those of files that lie


class _Side(NamedTuple):
    """A test on one device: bytes of a call, seconds of a copy of as many, and the share of that roof."""

    device: DeviceInfo
    bytes: int
    copy_time: float
    share: float | None

    @property
    def call_time(self) -> float | None:
        """The seconds of a call; None where they are not known."""
        return self.copy_time / self.share if self.share else None


_Test = Mapping[Kind, _Side]
_Devices = tuple[tuple[Kind, str, str], ...]  # kinds, names and libraries: copies of others take other times


def figures(records: Iterable[Record]) -> list[Figure]:
    """Return a figure for each CPU with its GPU on which tests have roofs of at least three sizes."""
    return [_figure(tests) for tests in _by_devices(records) if _has_sizes(tests)]


def _by_devices(records: Iterable[Record]) -> Iterator[Sequence[_Test]]:
    """Yield the tests of each CPU with its GPU; one without a roof on the other joins the first with its own.

    Two devices, or two libraries on one, never share a line.
    """
    found: dict[_Devices, list[_Test]] = {}
    homes: dict[_Devices, _Devices] = {}
    tests = filter(None, map(_sides, records))
    for test in sorted(tests, key=len, reverse=True):  # those on both devices first
        devices = tuple((kind, side.device.name, side.device.library) for kind, side in test.items())
        home = devices if len(devices) > 1 else homes.get(devices, devices)
        for device in devices:
            homes.setdefault((device,), home)
        found.setdefault(home, []).append(test)
    yield from found.values()


def _sides(record: Record) -> _Test:
    """Return a test on the devices whose roofs are known."""
    sides: dict[Kind, _Side] = {}
    for kind in KINDS:
        measured = record.measurement(kind)
        roof = (record.roof.cpu if kind == "cpu" else record.roof.gpu) if record.roof else None
        if measured and roof and 0 < roof.bytes < _MOST_BYTES and roof.copy_time:  # the axes are logarithmic
            share = roof.share.value if roof.share else None
            sides[kind] = _Side(measured.device, roof.bytes, roof.copy_time, share)
    return sides


def _has_sizes(tests: Sequence[_Test]) -> bool:
    sizes = ({test[kind].bytes for test in tests if kind in test} for kind in KINDS)
    return any(len(each) >= _FEWEST_SIZES for each in sizes)


def _figure(tests: Sequence[_Test]) -> Figure:
    """Return the figure of tests on one CPU and one GPU, or on one of them."""
    by_kind = {kind: [test[kind] for test in tests if kind in test] for kind in KINDS}
    shown = [sides for sides in by_kind.values() if sides]
    sizes = sorted({side.bytes for sides in shown for side in sides})
    ends = f"{units.size(sizes[0])} to {units.size(sizes[-1])}"
    near = [said for sides in shown if (said := _shares(sides))]
    return chart.figure(
        [line for sides in shown for line in _lines(sides)],
        (),
        across=Axis(name="bytes that a call moves", word=units.size),
        ticks=[sizes[-1], *sizes[:-1]],  # both ends have a word, whatever lies between
        upright=Axis(name="time of a call", word=units.seconds),
        finding="; ".join([f"Time over bytes: {units.count(len(tests), 'test')}, {ends}", *near]),
        caption="A mark is a test; a line is the roof, the time of a plain copy of as many bytes. Work that "
        f"computes much with each byte lies far above it. {'; '.join(map(_named, shown))}.",
    )


def _lines(sides: Sequence[_Side]) -> Iterator[Line]:
    """Yield the roof of a device, and the calls of its tests.

    Each process times its own copies: of those of one size the fastest is the roof.
    """
    device = sides[0].device
    roof: dict[int, float] = {}
    for side in sides:
        roof[side.bytes] = min(side.copy_time, roof.get(side.bytes, side.copy_time))
    if len(roof) > 1:
        copies = [(size, chart.exact(roof[size])) for size in sorted(roof)]
        yield Line(style=device.kind, name=f"{device.noun}'s roof", values=copies, drawn="line")
    calls = [(side.bytes, chart.exact(call)) for side in sides if (call := side.call_time)]
    yield Line(style=device.kind, name=device.noun, values=calls, drawn="dots")


def _shares(sides: Sequence[_Side]) -> str | None:
    """Return how near the calls on a device are to its roof; None where that is not known."""
    shares = [side.share for side in sides if side.share]
    if not shares:
        return None
    ends = dict.fromkeys(f"{units.digits(100 * share)} %" for share in (min(shares), max(shares)))
    return f"the {sides[0].device.noun}'s calls are at {' to '.join(ends)} of its roof"


def _named(sides: Sequence[_Side]) -> str:
    device = sides[0].device
    return f"{device.noun}: {device.name}, {device.library}"
