"""pytest-run-parallel: it runs a speedup test once and in one thread, whatever it is asked for."""

from collections.abc import Iterable

import pytest

from pytest_gpuperf.collection.items import SPEC


def run_alone(found: Iterable[pytest.Item]) -> None:
    """Give speedup tests the markers for which it leaves their functions as they are.

    Those of --gpuperf-all belong to the suite, and run as it wants.
    """
    for item in found:
        if item.stash[SPEC].source != "all":
            item.add_marker(pytest.mark.thread_unsafe(reason="pytest-gpuperf times it"))
            item.add_marker(pytest.mark.iterations(1), append=False)  # before the test's own
