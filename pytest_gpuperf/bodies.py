"""From an item and a device to the body that is called: its fixtures, and what stands in for some of them."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from pytest_gpuperf.devices.protocol import Device
from pytest_gpuperf.items import Shape
from pytest_gpuperf.model import GpuPerfError

__all__ = ["bind", "fixtures", "quiet"]


def fixtures(item: Any) -> dict[str, Any]:
    """Return the fixtures that a test function takes; those that cannot stand many calls have a stand-in."""
    names = item._fixtureinfo.argnames  # noqa: SLF001 - pytest's own call reads them here
    found = {name: item.funcargs[name] for name in names}
    for name, kind in _STAND_INS.items():
        if name in found and type(found[name]).__module__.startswith(kind.stands_for):
            found[name] = kind(found[name])
    return found


def bind(
    function: Callable[..., Any], taken: Mapping[str, Any], shape: Shape, device: Device
) -> Callable[[], Any]:
    """Return a test function with its fixtures, and the device in its slots.

    Only where a fixture has a stand-in is there anything between the call and the function.
    """
    arguments = dict(taken)
    arguments.update({"device": device} if "device" in shape.slots else {})
    arguments.update({"xp": device.xp} if "xp" in shape.slots else {})
    body = partial(function, **arguments)
    handed = next((each for each in arguments.values() if isinstance(each, _Benchmark)), None)
    subtests = next((each for each in arguments.values() if isinstance(each, _Subtests)), None)
    if subtests is not None:
        body = partial(_then_quiet, body, subtests)
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
    result = body()
    return result if handed.workload is None else handed.workload


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
        vars(self)["workload"] = partial(function, *inputs, **options)
        if self._is_used:
            return self.workload()
        vars(self)["_is_used"] = True
        self._real.disabled = True  # it is used, and times nothing
        return self._real(function, *inputs, **options)

    def pedantic(self, target: Callable[..., Any], args: Any = (), kwargs: Any = None, **options: Any) -> Any:
        for name in ("setup", "teardown"):
            if options.get(name) is not None:
                raise GpuPerfError(
                    f"benchmark.pedantic has a {name} for each call, which would be timed too; a speedup "
                    "test times one callable: make what it needs before, and undo inside it what it changes"
                )
        return self(target, *args, **(kwargs or {}))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)


_STAND_INS: dict[str, type[_Subtests] | type[_Benchmark]] = {"subtests": _Subtests, "benchmark": _Benchmark}
