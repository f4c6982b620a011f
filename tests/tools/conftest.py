"""Benchmarks as modules."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    """Import a benchmark as it is run, from its own folder; forget its modules afterwards."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    own = [path.stem for path in BENCHMARKS.glob("*.py")]
    for name in own:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield import_module
    for name in own:
        sys.modules.pop(name, None)
