"""Replacements for fixtures of other plugins that a test function cannot use once per timed call."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import pytest

from pytest_gpuperf.model import ask, units
from pytest_gpuperf.model.errors import GpuPerfError


def replacement_for(value: Any) -> "SubtestsReplacement | BenchmarkReplacement | None":
    """Return the replacement for a fixture's value, None where it needs none.

    The type decides, not the fixture's name: a suite's own fixture may return another one's value.
    """
    if _is_from(value, SubtestsReplacement.packages):
        return SubtestsReplacement(value)
    if is_benchmark(value):
        return BenchmarkReplacement(value)
    return None


def is_benchmark(value: Any) -> bool:
    """Return whether a value is the fixture of pytest-benchmark, or pytest-codspeed's, which replaces it."""
    return _is_from(value, BenchmarkReplacement.packages)


class SubtestsReplacement:
    """Replaces the fixture `subtests`: reports the subtests of the first call, and of no later one."""

    packages = ("_pytest.subtests", "pytest_subtests")

    def __init__(self, real: Any) -> None:
        self._real = real
        self._are_reported = True

    def test(self, *inputs: Any, **options: Any) -> AbstractContextManager[Any]:
        """Return the context of one subtest."""
        return self._real.test(*inputs, **options) if self._are_reported else no_subtest()

    def call_body(self, body: Callable[[], Any]) -> Any:
        """Call the test's body; no later call reports a subtest."""
        result = body()
        self._are_reported = False
        return result


class BenchmarkReplacement:
    """Replaces pytest-benchmark's fixture: calls what it is given once, untimed, and remembers it.

    Every other attribute is read and set on the real fixture, so its own state goes to `__dict__`.
    """

    packages = ("pytest_benchmark", "pytest_codspeed")

    def __init__(self, real: Any) -> None:
        self.__dict__.update(_real=real, _is_used=False, _workload=None)

    def call_body(self, body: Callable[[], Any]) -> Any:
        """Call the test's body, and return what it passed to pytest-benchmark: that is the workload."""
        self.__dict__["_workload"] = None
        result = body()
        return result if self._workload is None else self._workload

    def __call__(self, function: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
        """Call a function once, and remember it as the workload."""
        if self._workload is not None:
            raise GpuPerfError("benchmark was called twice in one test; a speedup test has one workload")
        workload = partial(function, *inputs, **options)
        self.__dict__["_workload"] = workload
        return self._run(workload)

    def pedantic(self, target: Callable[..., Any], args: Any = (), kwargs: Any = None, **options: Any) -> Any:
        """Do the same for a target and its arguments; refuse a set-up or teardown for each call."""
        for name in ("setup", "teardown"):
            if options.get(name) is not None:
                self._run(lambda: None)
                raise GpuPerfError(
                    f"benchmark.pedantic has a {name} for each call, which would be timed too; a speedup "
                    "test times one callable: prepare its inputs before the call, and let it undo its changes"
                )
        return self(target, *args, **(kwargs or {}))

    def _run(self, workload: Callable[[], Any]) -> Any:
        """Call the workload; the first time through pytest-benchmark, which otherwise warns of no use."""
        if self._is_used or not hasattr(self._real, "disabled"):  # CodSpeed's, which may be called once
            return workload()
        self.__dict__["_is_used"] = True
        self._real.disabled = True  # pytest-benchmark then calls once and times nothing
        return self._real(workload)

    def __getattr__(self, name: str) -> Any:
        if name in _OF_A_TIMING:
            return _NoTiming(name)
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)


_OF_A_TIMING = ("stats", "weave", "patch", "cprofile_stats")


class _NoTiming:
    """A member that needs a timing which never happened: it is false, and an error where it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __bool__(self) -> bool:
        return False

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise GpuPerfError(
            f"benchmark.{self._name} needs a timing, and only pytest-gpuperf times a speedup test: require a "
            "speedup with min= or max=, read the times in the report, or remove the marker"
        )

    __getattr__ = __getitem__ = __call__ = _refuse


def _is_from(value: Any, packages: tuple[str, ...]) -> bool:
    return ask.module_of(type(value)).startswith(packages)


def not_in_files(config: pytest.Config, items: Iterable[pytest.Item]) -> str | None:
    """Return a line on the tests that pytest-benchmark, asked to save or compare its times, does not time."""
    names = ("compare_fail", "save", "autosave", "json")
    if not any(config.getoption(f"benchmark_{name}", default=None) for name in names):
        return None
    count = sum("benchmark" in getattr(item, "fixturenames", ()) for item in items)
    if not count:
        return None
    tests = units.count(count, "speedup test")
    return f"pytest-benchmark has no times of {tests}; --gpuperf-baseline and --gpuperf-fail-on compare those"


def no_subtest(*_: Any, **__: Any) -> AbstractContextManager[None]:
    """Return the context of a subtest that reports nothing."""
    return nullcontext()
