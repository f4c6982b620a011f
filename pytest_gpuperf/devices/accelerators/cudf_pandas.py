"""pandas with cudf.pandas (`accelerator:cudf.pandas`), which pytest must load before pandas."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any

from pytest_gpuperf.devices.accelerators.base import Accelerator, Calls, column
from pytest_gpuperf.devices.library import import_library, unusable
from pytest_gpuperf.model.errors import GpuPerfError, Unavailable

_TOO_LATE = "cudf.pandas was not loaded before pandas: run pytest -p cudf.pandas"


class CudfPandas(Accelerator):
    """cudf.pandas, once it is loaded, is on for the whole process; its own context switches it off."""

    library = "pandas"
    remedy = "install pandas"
    is_gpu = True

    def __init__(self, name: str, how: str) -> None:
        super().__init__(name, how)
        if how:
            raise GpuPerfError(f"accelerator:cudf.pandas has one GPU and takes no device, not {how!r}")
        self._loaded: Any = None

    def open(self) -> str:
        """Return its name with its version and the GPU's; raise Unavailable unless pandas is that of cuDF."""
        if "cudf.pandas" not in sys.modules:
            import_library("cudf", "cuDF", "install cudf-cu12 or cudf-cu13")
            raise Unavailable(_TOO_LATE)
        cudf, loaded = sys.modules["cudf"], sys.modules["cudf.pandas"]
        try:
            is_on = loaded.is_proxy_object(self.namespace().Series([1, 2]))
            cupy = import_library("cupy", "CuPy", "install it: cuDF needs it")
            gpu = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())["name"].decode()
        except Unavailable:
            raise
        except Exception as error:
            raise unusable("cudf.pandas cannot be used", error, "check that cuDF sees the GPU") from error
        if not is_on:
            raise Unavailable(_TOO_LATE)
        self._loaded = loaded
        return f"pandas with cudf.pandas {cudf.__version__} on {gpu}"

    def switched(self, *, is_on: bool) -> AbstractContextManager[Any]:
        """Leave it on, or let pandas give its own classes and functions; those made before stay proxies."""
        if is_on or "cudf.pandas" not in sys.modules:
            return nullcontext()
        switch: Any = import_module("cudf.pandas.module_accelerator")
        return switch.disable_module_accelerator()  # type: ignore[no-any-return]  # cuDF is not read

    @contextmanager
    def calls(self) -> Iterator[Calls]:
        """Read the profiler of cudf.pandas: which functions ran on the GPU, and which ones on the CPU."""
        calls = Calls()
        if "cudf.pandas" not in sys.modules:
            yield calls
            return
        with sys.modules["cudf.pandas"].Profiler() as profiler:
            yield calls
        for name, times in profiler.per_function_stats.items():
            calls.ran += [name] * len(times.get("gpu", ()))
            calls.left += [name] * len(times.get("cpu", ()))

    def unpack(self, value: Any) -> Any:
        """Return the columns and the index of a data frame or a series, pandas' own or a proxy of one."""
        name = type(value).__name__
        if name == "Series":
            return {"index": value.index.to_numpy(), "values": column(value)}
        if name == "DataFrame":
            columns = {str(key): column(value.iloc[:, place]) for place, key in enumerate(value.columns)}
            return {"index": value.index.to_numpy(), **columns}
        return column(value) if name.endswith("Index") and hasattr(value, "to_numpy") else None

    def synchronize(self) -> None:
        """Wait for the GPU, once it was opened."""
        if self._loaded is not None:
            sys.modules["cupy"].cuda.runtime.deviceSynchronize()
