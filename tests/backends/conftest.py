"""Tests of libraries ignore other work: on a real clock it would leave verdicts in doubt."""

import pytest

from pytest_gpuperf.timing import processors


@pytest.fixture(autouse=True)
def _no_other_work(monkeypatch):
    """Let no other program seem to have taken time."""
    monkeypatch.setattr(processors, "waits", dict)
    monkeypatch.setattr(processors, "other_work", lambda: None)
