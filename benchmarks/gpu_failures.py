"""A plugin of pytest for `gpu.py`: it prints each failure as it happens, for a run that may be cut off."""

from typing import Any


def pytest_runtest_logreport(report: Any) -> None:
    """Print why a test failed."""
    if report.failed:
        print(f"\n{report.nodeid}\n{report.longreprtext}", flush=True)
