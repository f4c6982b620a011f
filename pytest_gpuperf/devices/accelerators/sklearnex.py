"""scikit-learn patched by scikit-learn-intelex: `accelerator:sklearnex` on the CPU, with `:gpu` offloaded."""

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import numpy as np

from pytest_gpuperf.devices.accelerators.base import Accelerator, Calls, log_of
from pytest_gpuperf.devices.library import import_library, unusable
from pytest_gpuperf.model.errors import GpuPerfError, Unavailable

_INSTALL_GPU = "install scikit-learn-intelex[gpu], and the runtime of Intel's GPU"
_TARGET = re.compile(r"(?:gpu(?::\d+)?)?")


class Sklearnex(Accelerator):
    """scikit-learn whose classes are replaced while it is on, for those that look them up then."""

    library = "sklearn"
    remedy = "install scikit-learn"

    def __init__(self, name: str, how: str) -> None:
        super().__init__(name, how)
        self.is_gpu = bool(how)
        if not _TARGET.fullmatch(how):
            raise GpuPerfError(
                "accelerator:sklearnex takes no device, for the CPU, or one of Intel's GPUs, e.g. "
                f"accelerator:sklearnex:gpu:0, not {how!r}"
            )

    def open(self) -> str:
        """Return the name with its version after one fit; raise Unavailable where it cannot work."""
        import_library("sklearnex", "scikit-learn-intelex", "install scikit-learn-intelex")
        if self.how and find_spec("onedal._onedal_py_dpc") is None:
            raise Unavailable(f"scikit-learn-intelex is here for the CPU only; {_INSTALL_GPU}", missing=True)
        linear_model = import_library("sklearn.linear_model", "scikit-learn", self.remedy)
        try:
            with self.switched(is_on=True):
                linear_model.LinearRegression().fit(np.eye(3), np.ones(3))
        except Exception as error:
            where = self.how or "the CPU"
            raise unusable(f"scikit-learn-intelex cannot use {where}", error, _INSTALL_GPU) from error
        where = f" on {self.how}" if self.how else " on the CPU"
        return f"scikit-learn with scikit-learn-intelex {metadata.version('scikit-learn-intelex')}{where}"

    @contextmanager
    def switched(self, *, is_on: bool) -> Iterator[None]:
        """Patch scikit-learn for the device that its work is offloaded to, or take a suite's patch away."""
        sklearnex: Any = sys.modules.get("sklearnex")
        if sklearnex is None:  # only the CPU was opened: there is nothing to take away
            yield
            return
        was_on = sklearnex.sklearn_is_patched()
        _patch(sklearnex, is_on=is_on)
        try:
            with sklearnex.config_context(target_offload=self.how) if is_on and self.how else nullcontext():
                yield
        finally:
            _patch(sklearnex, is_on=was_on)

    @contextmanager
    def calls(self) -> Iterator[Calls]:
        """Read the log of scikit-learn-intelex, which says of each method where it ran."""
        calls = Calls()

        def read(record: logging.LogRecord) -> None:
            name, _, told = record.getMessage().partition(": ")
            on_cpu_instead = self.is_gpu and told.startswith("running accelerated version on CPU")
            if "fallback to original" in told or on_cpu_instead:
                calls.left.append(name.removeprefix("sklearn."))
            elif told.startswith("running accelerated version"):
                calls.ran.append(name.removeprefix("sklearn."))

        with log_of("sklearnex", logging.INFO, read):
            yield calls


def _patch(sklearnex: Any, *, is_on: bool) -> None:
    if is_on:
        sklearnex.patch_sklearn(verbose=False)
    else:
        sklearnex.unpatch_sklearn()
