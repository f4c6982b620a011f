"""Real clocks beside other work: what that takes from a test's times leaves the verdict in doubt."""

import pytest

from pytest_gpuperf.timing import processors


@pytest.fixture(autouse=True)
def _no_other_work(monkeypatch):
    """Let no time seem to be another program's, which tests of libraries are not about."""
    monkeypatch.setattr(processors, "waits", dict)
    monkeypatch.setattr(processors, "other_work", lambda: None)
