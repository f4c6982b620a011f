"""CI's comparison of other projects' suites: what differs with the plugin is found."""

import sys
from importlib import util
from pathlib import Path

import pytest
from cases import for_each

REAL = Path(__file__).parents[2] / ".ci" / "real"


@pytest.fixture(scope="module")
def suites():
    spec = util.spec_from_file_location("suites", REAL / "suites.py")
    module = sys.modules["suites"] = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def a_run(*, collected=None, exit=0, warnings=None, **outcomes):
    return {
        "exit": exit,
        "collected": list(outcomes) if collected is None else collected,
        "outcomes": {nodeid: found.split() for nodeid, found in outcomes.items()},
        "warnings": warnings or {},
    }


WARNING = "UserWarning (runtest)"


def after(**outcomes):
    return a_run(**{"a": "passed", "b": "skipped", "c": "xfailed", **outcomes}, warnings={WARNING: 2})


BEFORE = after()


@for_each(
    ("after", "expected"),
    [
        (BEFORE, []),
        ({**BEFORE, "collected": ["c", "b", "a"]}, []),  # in another order
        ({**BEFORE, "collected": ["a", "b", "d"]}, ["not collected: c; only with the plugin: d"]),
        ({**BEFORE, "exit": 1}, ["exit code 1 with the plugin, 0 without it"]),
        (after(a="failed"), ["a: passed without the plugin, failed with it"]),
        (after(a="passed error"), ["a: passed without the plugin, passed and error with it"]),
        (after(c="xpassed"), ["c: xfailed without the plugin, xpassed with it"]),
        (
            after(d="passed"),
            ["not collected: none; only with the plugin: d", "d: not run without the plugin, passed with it"],
        ),
        (
            {**BEFORE, "warnings": {WARNING: 3}},
            [f"3 warnings of {WARNING} with the plugin, 2 without it"],
        ),
    ],
)
def test_what_differs_with_the_plugin_is_named(suites, after, expected):
    assert expected == suites.differences([BEFORE], [after])


def test_a_run_without_tests_is_wrong_whatever_was_before(suites):
    nothing = a_run()
    assert "no test was run" in suites.differences([nothing], [nothing])


def test_what_a_suite_does_by_chance_is_no_difference(suites):
    changed = {**after(a="failed"), "exit": 1, "warnings": {WARNING: 3}}
    again = {**changed, "warnings": {WARNING: 4}}
    assert suites.differences([BEFORE, again], [changed]) == []
    assert suites.differences([BEFORE, again], [after(a="error")])
    more = {**BEFORE, "warnings": {WARNING: 3}}
    assert suites.differences([BEFORE, BEFORE], [more, BEFORE]) == []
    assert suites.differences([BEFORE, BEFORE], [more, more])
    assert suites.differences([BEFORE, BEFORE], [BEFORE, after(a="failed")])


def a_record(**changed):
    return {
        "nodeid": "a",
        "source": "all",
        "status": "recorded",
        "reason": None,
        "speedup": {"value": 2.0},
        **changed,
    }


@for_each(
    ("records", "expected"),
    [
        ([a_record(), a_record(speedup=None)], []),
        ([], ["the report has no record", "0 pairs were measured, fewer than 1"]),
        ([a_record(source="marker")], ["records of another source: a"]),
        ([a_record(status="failed")], ["verdicts that nobody asked for: a"]),
    ],
)
def test_what_a_report_lacks_is_named(suites, records, expected):
    assert expected == suites.shortcomings({"records": records}, 1)


def test_a_run_is_written_as_it_was(pytester, monkeypatch, suites):
    """The plugin that writes them, by a suite with everything in it."""
    pytester.makepyfile(
        test_it="""
        import warnings
        import pytest

        def test_passes(): warnings.warn("again")
        def test_fails(): assert 0
        @pytest.mark.xfail
        def test_xfails(): assert 0
        @pytest.mark.xfail
        def test_xpasses(): pass
        def test_skips(): pytest.skip()
        @pytest.fixture
        def broken():
            yield
            raise ValueError
        def test_breaks(broken): pass
        """
    )
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for workers in (("-p", "gpuperf"), ("-p", "gpuperf", "-p", "xdist", "-n", "1")):
        suite = suites.Suite(name="it", folder=".", arguments=("test_it.py",))
        found = suites._run(suite, workers, pytester.path)
        assert {nodeid.rpartition("_")[2]: outcome for nodeid, outcome in found["outcomes"].items()} == {
            "passes": ["passed"],
            "fails": ["failed"],
            "xfails": ["xfailed"],
            "xpasses": ["xpassed"],
            "skips": ["skipped"],
            "breaks": ["error", "passed"],
        }
        assert sorted(found["collected"]) == sorted(found["outcomes"])
        assert found["warnings"] == ({} if "-n" in workers else {"UserWarning (runtest)": 1})
        assert found["exit"] == 1


def test_a_plugin_that_changes_an_outcome_is_caught(pytester, suites, monkeypatch):
    """All the way, with a plugin that does harm in the place of --gpuperf-off."""
    pytester.makepyfile(
        test_it="def test_it(): pass\ndef test_other(): pass",
        harm="def pytest_collection_modifyitems(items): del items[1:]",
    )
    pytester.syspathinsert()
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the others take a second a run
    suite = suites.Suite(name="it", folder=".", arguments=("test_it.py",), modes=("serial",))
    monkeypatch.setattr(suites, "SUITES", (suite,))
    monkeypatch.setattr(suites, "AGAIN", 1)
    ways = {"with no option": ("-p", "gpuperf"), "harmed": ("-p", "gpuperf", "-p", "harm")}
    monkeypatch.setattr(suites, "WITH", ways)
    assert suites.main(pytester.path)[:2] == [
        "it, serial: harmed: not collected: test_it.py::test_other; only with the plugin: none",
        "it, serial: harmed: test_it.py::test_other: passed without the plugin, not run with it",
    ]
