"""CI's comparison of other projects' suites: what differs with the plugin is found."""

import sys
from importlib import util
from pathlib import Path

import pytest
from cases import for_each

REAL = Path(__file__).parents[2] / ".ci" / "real"
WARNING = "UserWarning (runtest)"


@pytest.fixture(scope="module")
def suites():
    spec = util.spec_from_file_location("suites", REAL / "suites.py")
    module = sys.modules["suites"] = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def after(**outcomes):
    """Return how a run ended, with these outcomes of its tests."""
    found = {"a": "passed", "b": "skipped", "c": "xfailed", **outcomes}
    ended = {nodeid: outcome.split() for nodeid, outcome in found.items()}
    return {"exit": 0, "collected": [*found], "outcomes": ended, "warnings": {WARNING: 2}}


BEFORE = after()


@for_each(
    ("expected", "after"),
    [
        ([], {**BEFORE, "collected": ["c", "b", "a"]}),  # in another order
        (["not collected: c; only with the plugin: d"], {**BEFORE, "collected": ["a", "b", "d"]}),
        (["exit code 1 with the plugin, 0 without it"], {**BEFORE, "exit": 1}),
        (["a: passed without the plugin, passed and error with it"], after(a="passed error")),
        (["c: xfailed without the plugin, xpassed with it"], after(c="xpassed")),
        ([f"3 warnings of {WARNING} with the plugin, 2 without it"], {**BEFORE, "warnings": {WARNING: 3}}),
    ],
)
def test_what_differs_with_the_plugin_is_named(suites, expected, after):
    assert expected == suites.differences([BEFORE], [after])


def test_what_a_suite_does_by_chance_is_no_difference(suites):
    changed = {**after(a="failed"), "exit": 1, "warnings": {WARNING: 3}}
    assert suites.differences([BEFORE, changed], [changed]) == []
    assert suites.differences([BEFORE, changed], [after(a="error")])


def test_a_plugin_that_changes_an_outcome_is_caught(pytester, suites, monkeypatch):
    """All the way, with a conftest that does harm where --gpuperf-off is given."""
    pytester.makepyfile(test_it="def test_it(): pass\ndef test_other(): pass")
    pytester.makeconftest("""
        def pytest_collection_modifyitems(config, items):
            if "--gpuperf-off" in config.invocation_params.args:
                del items[1:]
    """)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the others take a second a run
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p gpuperf")
    suite = suites.Suite(name="it", folder=".", arguments=("test_it.py",), modes=("serial",))
    harmed = "it, serial: with --gpuperf-off"
    assert suites._all_ways(suite, pytester.path) == [
        f"{harmed}: not collected: test_it.py::test_other; only with the plugin: none",
        f"{harmed}: test_it.py::test_other: passed without the plugin, not run with it",
    ]
