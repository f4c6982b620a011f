"""The hooks through which other plugins bring their devices and report formats, and get the records."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    import pytest

    from pytest_gpuperf.devices.protocol import Backend
    from pytest_gpuperf.model.record import Record
    from pytest_gpuperf.report.exports import ReportFormat

hookspec = pluggy.HookspecMarker("pytest")


@hookspec
def pytest_gpuperf_devices() -> "Iterable[Backend]":  # type: ignore[empty-body]  # a hook has no body
    """Return backends (see `pytest_gpuperf.Backend`) that `--gpuperf-gpu` may name.

    Called once in a run: at its start where `--gpuperf-gpu` names a device, else after collection, or when a
    fixture first needs a device. An exception, and anything that is no backend, is a usage error. Mark an
    implementation in a conftest with `@pytest.hookimpl(optionalhook=True)`, and the suite runs without this
    plugin too.
    """


@hookspec
def pytest_gpuperf_reports() -> "Iterable[ReportFormat]":  # type: ignore[empty-body]
    """Return formats (see `pytest_gpuperf.ReportFormat`) that `--gpuperf-export` may name.

    Called once, before the first test, in a run that writes a file in any format. A name that is taken is a
    usage error. The `conftest.py` has to be one that pytest loads at its start: that of the root folder, or
    of a folder or file that the command line or `testpaths` names.
    """


@hookspec
def pytest_gpuperf_record(item: "pytest.Item", record: "Record") -> None:
    """Take the record of a speedup test that has just run.

    The report may add notes to it that only the whole run shows: a CPU variant whose GPU variant has no
    speedup, and a test that ran more than once, whose further results have `#2` after their node ids.
    Called after the test's teardown, in the process in which it ran (with pytest-xdist, in its worker), and
    again for each rerun. Tests that did not run have records in the report alone: deselected ones, those of a
    worker that crashed, and those that the session ended before. An exception is an error of the test, shown
    with its traceback; the record stays as it is.
    """
