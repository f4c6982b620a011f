"""The report at pytest's door: JSON, journal, JUnit, terminal, xdist."""

import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from fnmatch import fnmatch
from types import SimpleNamespace

import pytest
from published import JUDGE

from pytest_gpuperf.cli import main
from pytest_gpuperf.report.html import page as html_page

SUITE = """
    import numpy as np
    import pytest

    @pytest.mark.speedup(min=3)
    def test_fast(device):
        a = device.asarray(np.ones(100))
        return lambda: a + 1

    @pytest.mark.speedup(min=300)
    def test_slow(xp):
        xp.fft.fft(xp.ones(100))

    @pytest.mark.speedup
    def test_bare(device):
        return lambda: device.launch()

    @pytest.mark.skip(reason="a bad day")
    @pytest.mark.speedup(min=3)
    def test_skipped(device):
        pass

    @pytest.mark.speedup(min=3)
    def test_lonely():
        pass

    def test_unmarked():
        pass
"""


KEPT = {}


@pytest.fixture
def whole(run, pytester):
    """Return what a run of the whole suite has left, which is the same for all tests that only read it."""
    if not KEPT:
        options = ("--gpuperf-json=report.json", "--junit-xml=junit.xml")
        KEPT["result"] = run(SUITE, *options)
        KEPT["report"] = report(pytester)
        KEPT["junit"] = (pytester.path / "junit.xml").read_text(encoding="utf-8")
        KEPT["files"] = [path.name for path in pytester.path.glob("*report.json*")]
    return SimpleNamespace(**KEPT)


def report(pytester):
    return json.loads((pytester.path / "report.json").read_text())


def by_name(report):
    return {record["nodeid"].split("::")[1]: record["status"] for record in report["records"]}


def statuses(pytester):
    return by_name(report(pytester))


def test_every_marked_test_has_its_record(whole):
    whole.result.assert_outcomes(passed=3, failed=1, skipped=1, errors=1)
    expected = {
        "test_fast": "passed",
        "test_slow": "failed",
        "test_bare": "recorded",
        "test_skipped": "skipped",
        "test_lonely": "error",
    }
    assert by_name(whole.report) == expected
    assert whole.report["summary"] == {"inconclusive": 0, **Counter(expected.values())}
    JUDGE.validate(whole.report)
    assert whole.report["complete"] is True
    for record in whole.report["records"]:
        assert (record["reason"] is None) == (record["status"] in ("passed", "recorded"))
    assert whole.files == ["report.json"], "the journal is gone"
    whole.result.stdout.fnmatch_lines(["simulated CPU | simulated GPU: synthetic times"])


def test_the_numbers_are_those_of_the_devices(whole):
    record = whole.report["records"][0]
    times = [record["cpu"]["median"], record["gpu"]["median"], record["gpu"]["device_time"]]
    assert pytest.approx([10e-3, 1e-3, 1e-3], rel=0.01) == times
    seen, certain = record["speedup"], record["speedup"]["certain"]
    assert pytest.approx(10, rel=0.01) == seen["value"]
    assert certain["low"] < seen["low"] <= seen["value"] <= seen["high"] <= certain["high"]
    assert record["gpu"]["device"]["emulated"] is True
    assert (True, 0) == (record["check"]["agreed"], record["check"]["error"])


def test_without_gpu_the_report_has_the_cpu_times_and_the_reason(run, pytester):
    run(SUITE, "--gpuperf-json=report.json", gpu="none").stdout.fnmatch_lines(["CPU * | GPU none"])
    record = report(pytester)["records"][0]
    assert (record["status"], record["reason_code"]) == ("skipped", "no_gpu")
    assert "turned off by --gpuperf-gpu=none" in record["reason"]
    assert len(record["cpu"]["samples"]) > 1
    assert (record["gpu"], record["speedup"]) == (None, None)
    assert report(pytester)["environment"]["gpu"] is None


def test_a_run_with_nothing_marked_writes_a_report_that_says_so(run, pytester):
    result = run("def test_it(): pass", "--gpuperf-json=report.json", gpu=None)
    assert report(pytester)["records"] == []
    result.stdout.no_fnmatch_line("*gpuperf -*")


def test_deselected_tests_are_in_the_report_and_not_in_the_table(run, pytester):
    result = run(SUITE, "--gpuperf-json=report.json", "-k", "bare")
    assert set(statuses(pytester).values()) == {"recorded", "skipped"}
    assert len(statuses(pytester)) == 5
    codes = [record["reason_code"] for record in report(pytester)["records"] if record["status"] == "skipped"]
    assert set(codes) == {"deselected"}
    result.stdout.no_fnmatch_line("test_fast *")


def test_control_c_keeps_what_was_measured(pytester):
    source = SUITE.replace("device.launch()", "(_ for _ in ()).throw(KeyboardInterrupt)")
    pytester.makepyfile(test_it=source)
    options = ("-p", "no:randomly", "--gpuperf-gpu=simulated", "--gpuperf-json=report.json")
    result = pytester.runpytest_inprocess(*options, no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert statuses(pytester)["test_fast"] == "passed"
    assert statuses(pytester)["test_bare"] == "error"
    assert report(pytester)["complete"] is False


def test_a_run_that_measured_nothing_leaves_an_earlier_report_and_has_a_page_without_a_history(
    run, pytester, whole
):
    (pytester.path / "report.json").write_text(json.dumps(whole.report), encoding="utf-8")
    outputs = ("--gpuperf-json=report.json", "--gpuperf-html=it.html", "--gpuperf-history=runs")
    result = run(SUITE + "\n1 / 0\n", *outputs)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert report(pytester) == whole.report
    kept = "*report.json was left as it is: this run ended before it measured anything"
    result.stdout.fnmatch_lines_random([kept, "html file: *it.html"])
    assert 'id="history"' not in (pytester.path / "it.html").read_text()


def test_a_killed_run_is_recovered_from_its_journal(run, pytester, capsys):
    source = SUITE.replace("device.launch()", "os.kill(os.getpid(), signal.SIGKILL)")
    pytester.makepyfile(test_it=source.replace("import pytest", "import os, signal, pytest"))
    ours = ["-pgpuperf", "--gpuperf-gpu=simulated", "--gpuperf-json=report.json"]
    command = [sys.executable, "-m", "pytest", *ours]
    killed = subprocess.run(command, cwd=pytester.path, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    (journal,) = pytester.path.glob("report.json.*.journal")
    kept = journal.read_bytes()
    later = run(SUITE, "--gpuperf-json=report.json", "-k", "fast")
    later.stdout.fnmatch_lines(
        [f"an earlier run wrote no report; * then remove its journal: gpuperf recover {journal} *"]
    )
    assert kept == journal.read_bytes()
    recovered = pytester.path / "report.json"
    recovered.unlink()
    assert main(["recover", str(journal), str(recovered)]) == 0
    assert statuses(pytester) == {"test_fast": "passed", "test_slow": "failed"}
    assert report(pytester)["complete"] is False
    assert main(["validate", str(recovered)]) == 0
    assert main(["recover", str(journal), str(recovered)]) == 2
    assert "exists; name a new file" in capsys.readouterr().err


def test_a_page_that_cannot_be_made_ends_the_run_before_the_first_test(run, pytester, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    html_page.template.cache_clear()
    result = run(SUITE, "--gpuperf-html=it.html")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*--gpuperf-html: the page needs Jinja2, which is not installed; run pip install jinja2"]
    )
    assert not (pytester.path / "it.html").exists()


def test_a_folder_that_cannot_be_written_is_a_usage_error(run, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # as root nothing is read-only
    result = run(SUITE, "--gpuperf-json=report.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*no file can be written in *; choose another place"])


def test_files_that_cannot_be_written_at_the_end_are_named_fail_the_run_and_lose_no_other(run, pytester):
    made = (
        "\n    def test_last():\n        for name in ('report.json', 'it.md'): pathlib.Path(name).mkdir()\n"
    )
    outputs = ("--gpuperf-json=report.json", "--gpuperf-markdown=it.md", "--gpuperf-export=csv:it.csv")
    result = run(
        SUITE.replace("import pytest", "import pathlib, pytest") + made, *outputs, "-k", "fast or last"
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "test_fast *",
            "*the report *report.json was not written: *what was measured is in *.journal",
            "the markdown file was not written: *",
        ]
    )
    result.stdout.fnmatch_lines(["csv file: *"])
    assert len(list(pytester.path.glob("report.json.*.journal"))) == 1
    assert (pytester.path / "it.csv").exists()


def test_outputs_are_written_with_their_folders_and_anew_by_each_run_that_measures(run, pytester):
    def written():
        return {name: (pytester.path / name).read_text() for name in ("a/it.md", "b/c/it.csv", "it.json")}

    files = [
        f"--gpuperf-{option}" for option in ("markdown=a/it.md", "export=csv:b/c/it.csv", "history=d/kept")
    ]
    files += ["--gpuperf-export=bencher:it.json", "--gpuperf-json=e/f/report.json", "--gpuperf-html=it.html"]
    result = run(SUITE, *files, "-k", "bare")
    assert pytest.ExitCode.OK == result.ret
    result.stdout.fnmatch_lines(["history: *kept*", "markdown file: *it.md", "csv file: *it.csv"])
    before = written()
    assert before["a/it.md"].startswith("<!-- pytest-gpuperf -->\n### Speedups")
    assert before["b/c/it.csv"].startswith("test,")
    assert "test_it.py::test_bare" in json.loads(before["it.json"])
    assert pytest.ExitCode.INTERRUPTED == run(SUITE + "\n1 / 0\n", *files).ret
    assert before == written()
    run(SUITE, *files, "-k", "fast or slow")
    assert "test_fast" in written()["b/c/it.csv"]
    page = (pytester.path / "it.html").read_text()
    assert 'id="history"' in page
    assert page.index("test_slow") < page.index("test_fast"), "what failed comes first"
    assert 2 == len([*(pytester.path / "d/kept").iterdir()])


def test_githubs_summary_is_appended_to_and_elsewhere_none(run, pytester, monkeypatch):
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    asked = ("--gpuperf-markdown=github", "-k", "bare")
    assert pytest.ExitCode.OK == run(SUITE, *asked).ret
    summary = pytester.path / "step.md"
    summary.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    run(SUITE, *asked)
    written = summary.read_text(encoding="utf-8")
    assert written.startswith("before\n")
    assert 1 == written.count("### Speedups")


def test_junit_has_the_status_and_the_speedup(whole):
    found = {}
    for case in ElementTree.fromstring(whole.junit).iter("testcase"):
        found[case.get("name")] = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert found["test_fast"]["gpuperf.status"] == "passed"
    assert set(found["test_fast"]) == {"gpuperf.status", "gpuperf.speedup", "gpuperf.low", "gpuperf.high"}
    assert float(found["test_fast"]["gpuperf.speedup"]) == pytest.approx(10, rel=0.01)
    assert found["test_slow"]["gpuperf.status"] == "failed"
    assert found["test_lonely"]["gpuperf.status"] == "error"
    assert found["test_unmarked"] == {}


def test_xdist_gives_the_same_records_and_only_the_controller_writes_them(run, pytester, whole):
    pytest.importorskip("xdist", reason="the extra `test` has pytest-xdist")
    pytester.makeconftest(
        """
        from pathlib import Path

        def pytest_unconfigure(config):
            if hasattr(config, "workerinput"):
                Path("seen-by-the-worker").write_text(str(Path("report.json").exists()))
        """
    )
    (pytester.path / "report.json").unlink(missing_ok=True)
    result = run(SUITE, "--gpuperf-json=report.json", "-n", "1")
    assert (pytester.path / "seen-by-the-worker").read_text() == "False"
    result.assert_outcomes(passed=3, failed=1, skipped=1, errors=1)
    assert statuses(pytester) == by_name(whole.report)
    assert report(pytester)["complete"] is True
    assert report(pytester)["environment"]["gpu"]["backend"] == "simulated"
    result.stdout.fnmatch_lines(["*- gpuperf -*", "test_fast*passed"])


def section_of(result):
    """Return the lines of our section without the heading."""
    shown = str(result.stdout).partition("- gpuperf -")[2].split("\n=====")[0]
    return [line for line in shown.splitlines()[1:] if line]


def test_what_pytest_has_shown_of_a_failure_is_not_said_a_third_time(run):
    too_slow, no_device = "required at least 300x, ", "a speedup test must use a device"
    shown = str(run(SUITE, "-k", "slow or lonely", "-rN").stdout)
    assert [1, 1] == [shown.count(too_slow), shown.count(no_device)], "in FAILURES and ERRORS alone"
    for quiet in ((), ("-q",)):
        shown = str(run(SUITE, "-k", "slow", "-rN", "--tb=no", *quiet).stdout)
        assert 1 == shown.count(too_slow), "in our section alone"


def test_the_quieter_pytest_the_less_is_shown(run):
    counts = "verdicts on an emulated device: 1 failed, 1 error, 1 passed, 1 recorded, 1 skipped"
    nothing_compared = "2 of 3 tests compared no results, as they return none: *"
    verdicts, folded, *more = section_of(run(SUITE, "-q", "--gpuperf-json=report.json"))
    assert counts == f"{verdicts} {folded.strip()}"
    assert fnmatch(" ".join(more), nothing_compared)
    assert [
        "verdicts on an emulated device: *",
        "test_lonely: *",
        "test_slow: *",
        "1 more note: *",
        nothing_compared,
    ] == [
        line.partition(": ")[0] + ": *" if ": " in line else line
        for line in section_of(run(SUITE, "-q", "--tb=no"))
        if not line.startswith("  ")
    ]


@pytest.mark.parametrize("option", ["-qq", "--no-summary"])
def test_a_report_that_cannot_be_written_is_told_however_quiet_and_nothing_else(run, option):
    source = SUITE + "\n    def test_last():\n        __import__('pathlib').Path('report.json').mkdir()\n"
    shown = run(source, option, "--gpuperf-json=report.json", "-k", "fast or last").outlines
    ours = [line for line in shown if line.startswith(("the report ", "verdicts", "test_fast"))]
    assert ["the report "] == [line[:11] for line in ours]
    assert "was not written: " in ours[0]


def test_the_verdict_is_coloured_where_pytest_colours(run, monkeypatch, whole):
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = run(SUITE, "--color=yes").outlines
    for name, ending in (
        ("fast", "  \x1b[32mpassed\x1b[0m"),
        ("slow", "  \x1b[31mfailed\x1b[0m"),
        ("bare", "recorded"),
    ):
        assert any(line.startswith(f"test_{name}") and line.endswith(ending) for line in coloured), name
    assert "\x1b" not in str(whole.result.stdout)


@pytest.mark.parametrize("option", ["--collect-only", "--fixtures", "--setup-plan", "--setup-only"])
def test_what_runs_no_test_writes_no_report(run, pytester, option):
    result = run(SUITE, option, "--gpuperf-json=report.json")
    assert not (pytester.path / "report.json").exists()
    result.stdout.no_fnmatch_line("*- gpuperf -*")


def test_xdist_prints_the_table_without_any_option_of_ours(run, pytester, forked_workers):
    pytest.importorskip("xdist", reason="the extra `test` has pytest-xdist")
    first = "@pytest.mark.speedup(pair='a')\ndef test_a_cpu(cpu): return lambda: cpu.xp.ones(3)"
    pytester.makepyfile(test_a=f"import pytest\n{first}")
    result = run(SUITE, "-n", "1", "-v", gpu=None)
    result.stdout.fnmatch_lines(
        ["*PASSED (CPU *) test_a.py::test_a_cpu*", "*- gpuperf -*", "test_lonely*error"]
    )
