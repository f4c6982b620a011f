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


BEFORE = a_run(a="passed", b="skipped", c="xfailed", warnings={"UserWarning (runtest)": 2})


def test_the_same_run_has_no_difference(suites):
    assert suites.differences([BEFORE], [BEFORE]) == []


@for_each(
    ("after", "expected"),
    [
        (a_run(a="failed", b="skipped", c="xfailed"), "a: passed without the plugin, failed with it"),
        (a_run(a="passed error", b="skipped", c="xfailed"), "a: passed without the plugin, passed and error"),
        (a_run(a="passed", b="passed", c="xfailed"), "b: skipped without"),
        (a_run(a="passed", b="skipped", c="xpassed"), "c: xfailed without"),
        (a_run(a="passed", b="skipped", collected="abc"), "c: xfailed without the plugin, not run with it"),
        (a_run(a="passed", b="skipped", c="xfailed", d="passed"), "d: not run without"),
    ],
)
def test_an_outcome_that_differs_is_named(suites, after, expected):
    after["warnings"] = BEFORE["warnings"]
    assert any(sentence.startswith(expected) for sentence in suites.differences([BEFORE], [after]))


@pytest.mark.parametrize("count", [1, 3])
def test_a_count_of_warnings_that_differs_is_named(suites, count):
    after = {**BEFORE, "warnings": {"UserWarning (runtest)": count}}
    expected = f"{count} warnings of UserWarning (runtest) with the plugin, 2 without it"
    assert suites.differences([BEFORE], [after]) == [expected]
    after = {**BEFORE, "warnings": {**BEFORE["warnings"], "OtherWarning (collect)": 1}}
    assert len(suites.differences([BEFORE], [after])) == 1


def test_another_collection_is_named(suites):
    after = {**BEFORE, "collected": ["a", "b", "d"]}
    assert suites.differences([BEFORE], [after]) == ["not collected: c; only with the plugin: d"]


def test_another_order_is_none(suites):
    assert suites.differences([BEFORE], [{**BEFORE, "collected": ["c", "b", "a"]}]) == []


def test_another_exit_code_is_named(suites):
    assert suites.differences([BEFORE], [{**BEFORE, "exit": 1}]) == [
        "exit code 1 with the plugin, 0 without it"
    ]


def test_a_run_without_tests_is_wrong_whatever_was_before(suites):
    nothing = a_run()
    assert "no test was run" in suites.differences([nothing], [nothing])


def test_what_a_suite_does_by_chance_is_no_difference(suites):
    after = {**a_run(a="failed", b="skipped", c="xfailed", exit=1), "warnings": {"UserWarning (runtest)": 3}}
    again = {**after, "warnings": {"UserWarning (runtest)": 4}}
    assert suites.differences([BEFORE], [after])
    assert suites.differences([BEFORE, again], [after]) == []
    assert suites.differences([BEFORE, again], [a_run(a="error", b="skipped", c="xfailed")])


def test_warnings_that_only_some_runs_with_the_plugin_have_are_no_difference(suites):
    more = {**BEFORE, "warnings": {"UserWarning (runtest)": 3}}
    assert suites.differences([BEFORE, BEFORE], [more, BEFORE]) == []
    assert suites.differences([BEFORE, BEFORE], [more, more])


def test_an_outcome_that_only_one_run_with_the_plugin_has_is_a_difference(suites):
    failed = {**a_run(a="failed", b="skipped", c="xfailed", exit=1), "warnings": BEFORE["warnings"]}
    assert suites.differences([BEFORE, BEFORE], [BEFORE, failed]) == [
        "a: passed without the plugin, failed with it",
        "exit code 1 with the plugin, 0 without it",
    ]


def a_record(**changed):
    return {
        "nodeid": "a",
        "source": "all",
        "status": "recorded",
        "reason": None,
        "speedup": {"value": 2.0},
        **changed,
    }


def test_a_report_with_enough_pairs_lacks_nothing(suites):
    assert suites.shortcomings({"records": [a_record(), a_record(speedup=None)]}, 1) == []


@for_each(
    ("records", "expected"),
    [
        ([], "the report has no record"),
        ([a_record(source="marker")], "records of another source: a"),
        ([a_record(status="failed")], "verdicts that nobody asked for: a"),
        ([a_record(speedup=None)], "0 pairs were measured, fewer than 1"),
    ],
)
def test_what_a_report_lacks_is_named(suites, records, expected):
    assert expected in suites.shortcomings({"records": records}, 1)


def test_a_report_is_told_with_its_commonest_reasons(suites):
    slow = [a_record(status="error", speedup=None, reason=f"took {n}.5 s in a.py::test_{n}") for n in (1, 2)]
    assert suites.summary({"records": [a_record(), *slow]}) == [
        "3 records: 2 error, 1 recorded; 1 pairs measured",
        "     2 took N s in TEST",
    ]


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


def test_a_suite_that_is_missing_or_empty_is_wrong(pytester, suites, monkeypatch):
    pytester.makepyfile(test_it="def test_it(): pass")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    missing = [("no_such_file.py",), ("--pyargs", "no_such_suite"), ("-k", "nothing")]
    each = tuple(
        suites.Suite(name=" ".join(arguments), folder=".", arguments=arguments, modes=("serial",))
        for arguments in missing
    )
    monkeypatch.setattr(suites, "SUITES", each)
    wrong = suites.main(pytester.path)
    assert [suite.name for suite in each] == [sentence.partition(", serial: ")[0] for sentence in wrong]
    assert all("ended with exit code" in sentence for sentence in wrong)


def test_every_suite_runs_serially_and_some_in_parallel(suites, monkeypatch, tmp_path):
    monkeypatch.setattr(suites, "_accepted", lambda suite, mode, folder, tell: ["ran"])
    ran = suites.main(tmp_path)
    assert {f"{suite.name}, serial: ran" for suite in suites.SUITES} <= {*ran}
    assert "scipy.cluster.tests.test_vq, -n 2: ran" in ran
