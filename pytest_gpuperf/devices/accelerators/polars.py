"""Polars with another engine: the GPU's (`accelerator:polars`), or the CPU's streaming one (`:streaming`)."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import wraps
from importlib import import_module
from os import environ
from typing import Any

from pytest_gpuperf.devices.accelerators.base import Accelerator, Calls, column
from pytest_gpuperf.devices.library import import_library, unusable
from pytest_gpuperf.model.errors import GpuPerfError, Unavailable

_ENGINES = ("gpu", "streaming")
_OLDEST = (1, 44)  # the first whose Config takes an engine object; cudf-polars 26.10 takes no later one
_INSTALL = "install cudf-polars-cu12 or cudf-polars-cu13, and a polars that it supports"
_STARTS_WORK = ("collect", "execute", "sink_")


class Polars(Accelerator):
    """An engine for lazy queries. The GPU's raises where it cannot run one, and leaves none to the CPU."""

    library = "polars"
    remedy = "install polars"
    idle_remedy = "collect a lazy query: a data frame works at once, on the CPU whatever the engine"
    off_remedy = "choose no engine in the test: leave out engine= and polars' engine_affinity"

    def __init__(self, name: str, how: str) -> None:
        super().__init__(name, how or "gpu")
        self.is_gpu = self.how == "gpu"
        if self.how not in _ENGINES:
            names = " or ".join(f"accelerator:polars:{engine}" for engine in _ENGINES)
            raise GpuPerfError(f"polars has no engine {how!r} to compare; pass {names}")

    def namespace(self) -> Any:
        """Return polars; raise Unavailable where it is missing, broken or too old."""
        polars = super().namespace()
        version = polars.__version__
        if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST:
            oldest = ".".join(map(str, _OLDEST))
            raise Unavailable(
                f"polars {version} is too old to be given an engine; install polars>={oldest}", broken=True
            )
        return polars

    def open(self) -> str:
        """Return the engine's name after one query on it; raise Unavailable where it cannot run."""
        polars = self.namespace()
        if self.is_gpu:
            import_library("cudf_polars", "cudf_polars", _INSTALL)
        try:
            with self.switched(is_on=True):
                polars.LazyFrame({"a": [1, 2]}).select(polars.col("a").sum()).collect()
        except Exception as error:
            raise unusable(f"polars cannot use its {self.how} engine", error, _INSTALL) from error
        return "polars with its GPU engine" if self.is_gpu else "polars with its streaming engine on the CPU"

    def switched(self, *, is_on: bool) -> AbstractContextManager[Any]:
        """Let lazy queries run on the engine, or on the one for data in memory."""
        polars, engine = sys.modules["polars"], self.how if is_on else "in-memory"
        if engine == "gpu":
            engine = polars.GPUEngine(raise_on_fail=True)
        return polars.Config(engine_affinity=engine)  # type: ignore[no-any-return]  # polars is not read

    @contextmanager
    def calls(self) -> Iterator[Calls]:
        """Note the lazy queries that run: on this engine, whoever has chosen it, or on another one.

        Only the GPU's engine shows that it leaves a query to another one: it raises.
        """
        calls, polars = Calls(), sys.modules["polars"]

        def noted(shown: str, function: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(function)
            def call(*inputs: Any, **options: Any) -> Any:
                is_later = options.get("lazy") and not shown.endswith("collect_batches")  # one more query
                if not (is_later or _is_eager(options.get("optimizations"))):
                    is_ours = _engine(options.get("engine", "auto")) == self.how
                    (calls.ran if is_ours else calls.left).append(shown)
                return function(*inputs, **options)

            return call

        with ExitStack() as stack:
            for owner in (polars.LazyFrame, polars):
                for name, function in [*vars(owner).items()]:
                    if name.startswith(_STARTS_WORK) and name != "collect_schema" and callable(function):
                        setattr(owner, name, noted(f"{owner.__name__}.{name}", function))
                        stack.callback(setattr, owner, name, function)
            yield calls

    def unpack(self, value: Any) -> Any:
        """Return the columns of a data frame, or the values of a series; refuse a query that has not run."""
        polars = sys.modules["polars"]
        if isinstance(value, polars.LazyFrame):
            raise GpuPerfError(
                "a result is a LazyFrame, whose work would run after the timed call; return what its method "
                "collect returns"
            )
        if isinstance(value, polars.Series):
            return column(value)
        return {each.name: column(each) for each in value} if isinstance(value, polars.DataFrame) else None


def _engine(chosen: Any) -> str:
    """Return the name of the engine that a call chooses, by its name or as an object, or leaves to polars.

    That is the one which is set for all calls, where one is: an object, or else a variable's.
    """
    if chosen == "auto":
        config: Any = import_module("polars.lazyframe.engine_config")
        chosen = config.get_engine_affinity_override() or environ.get("POLARS_ENGINE_AFFINITY", chosen)
    return str(getattr(chosen, "name", chosen))


def _is_eager(optimizations: Any) -> bool:
    """Return whether a query is a step of a data frame's own method, such as `DataFrame.write_ndjson`.

    Polars never runs these on the GPU: for their optimizations `GPUEngine._post_opt_callback` returns None.
    """
    return bool(getattr(getattr(optimizations, "_pyoptflags", None), "eager", False))
