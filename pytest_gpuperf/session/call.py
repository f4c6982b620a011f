"""From an item and a device to the body that is called: its fixtures, and what stands in for some of them."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_gpuperf.collection.items import ItemSpec
from pytest_gpuperf.devices.protocol import Device
from pytest_gpuperf.model.errors import GpuPerfError

__all__ = ["Fixtures", "bind", "fixtures", "quiet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixtures:
    """What a test function takes; `hidden`: pytest-benchmark's fixture where another keeps it to itself."""

    arguments: Mapping[str, Any]
    hidden: Any = None


def fixtures(item: Any) -> Fixtures:
    """Return the fixtures that a test function takes; those that cannot stand many calls have a stand-in.

    They are known by their type: a suite's own fixture may pass one on by another name.
    """
    names = item._fixtureinfo.argnames  # noqa: SLF001 - pytest's own call reads them here
    found = {name: item.funcargs[name] for name in names}
    stand_ins = {id(value): stand_in for value in found.values() if (stand_in := _stand_in(value))}
    taken = {name: stand_ins.get(id(value), value) for name, value in found.items()}
    others = (value for value in item.funcargs.values() if id(value) not in stand_ins)
    hidden = next((value for value in others if _is_of(value, _Benchmark)), None)
    return Fixtures(arguments=taken, hidden=hidden)


def bind(function: Callable[..., Any], taken: Fixtures, shape: ItemSpec, device: Device) -> Callable[[], Any]:
    """Return a test function with its fixtures, and the device in its slots.

    Only where a fixture has a stand-in is there anything between the call and the function.
    """
    arguments = dict(taken.arguments)
    arguments.update({"device": device} if "device" in shape.slots else {})
    arguments.update({"xp": device.xp} if "xp" in shape.slots else {})
    body = partial(function, **arguments)
    handed = next((each for each in arguments.values() if isinstance(each, _Benchmark)), None)
    subtests = next((each for each in arguments.values() if isinstance(each, _Subtests)), None)
    if subtests is not None:
        body = partial(_then_quiet, body, subtests)
    if taken.hidden is not None:
        body = partial(_unused, body, taken.hidden)
    return body if handed is None else partial(_handed_over, body, handed)


def quiet(testcase: Any) -> None:
    """Let the subtests of a unittest report nothing, in the calls that come."""
    testcase.subTest = _no_subtest


def _then_quiet(body: Callable[[], Any], subtests: "_Subtests") -> Any:
    result = body()
    subtests.are_reported = False
    return result


def _handed_over(body: Callable[[], Any], handed: "_Benchmark") -> Any:
    """Return what a body handed to pytest-benchmark, if it did: that is the workload."""
    vars(handed)["workload"] = None
    result = body()
    return result if handed.workload is None else handed.workload


def _unused(body: Callable[[], Any], benchmark: Any) -> Any:
    """Return what a body does without pytest-benchmark's fixture; raise where another fixture calls that."""
    before, benchmark.disabled = getattr(benchmark, "_mode", None), True
    result = body()
    if getattr(benchmark, "_mode", None) != before:
        raise GpuPerfError(
            "a fixture of the suite calls benchmark, so that the workload is not known; take benchmark "
            "itself as an argument, or return the workload"
        )
    return result


def _no_subtest(*_: Any, **__: Any) -> AbstractContextManager[None]:
    return nullcontext()


class _Subtests:
    """Stands for the fixture `subtests`: reports those of the first call, and of no later one."""

    stands_for = ("_pytest.subtests", "pytest_subtests")

    def __init__(self, real: Any) -> None:
        self._real = real
        self.are_reported = True

    def test(self, *inputs: Any, **options: Any) -> AbstractContextManager[Any]:
        return self._real.test(*inputs, **options) if self.are_reported else _no_subtest()


class _Benchmark:
    """Stands for pytest-benchmark's fixture: runs what it is given once, untimed, and remembers it."""

    stands_for = ("pytest_benchmark",)

    def __init__(self, real: Any) -> None:
        vars(self).update(_real=real, workload=None, _is_used=False)

    def __call__(self, function: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
        if self.workload is not None:
            raise GpuPerfError("benchmark was called twice in one test; a speedup test has one workload")
        workload = partial(function, *inputs, **options)
        vars(self)["workload"] = workload
        return self._run(workload)

    def pedantic(self, target: Callable[..., Any], args: Any = (), kwargs: Any = None, **options: Any) -> Any:
        for name in ("setup", "teardown"):
            if options.get(name) is not None:
                self._run(lambda: None)
                raise GpuPerfError(
                    f"benchmark.pedantic has a {name} for each call, which would be timed too; a speedup "
                    "test times one callable: make what it needs before, and undo inside it what it changes"
                )
        return self(target, *args, **(kwargs or {}))

    def _run(self, workload: Callable[[], Any]) -> Any:
        """Call once, and let pytest-benchmark know that its fixture is used; it times nothing."""
        if self._is_used:
            return workload()
        vars(self)["_is_used"] = True
        self._real.disabled = True
        return self._real(workload)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)


def _stand_in(value: Any) -> "_Subtests | _Benchmark | None":
    return next((kind(value) for kind in (_Subtests, _Benchmark) if _is_of(value, kind)), None)


def _is_of(value: Any, kind: type[_Subtests] | type[_Benchmark]) -> bool:
    """Say whether a fixture's value is of the plugin that this kind stands for."""
    return type(value).__module__.startswith(kind.stands_for)
