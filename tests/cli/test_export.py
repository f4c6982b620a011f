"""gpuperf show --export."""

import os
from pathlib import Path

import pytest
from command import record, skipped, usage, written

from pytest_gpuperf.cli import main

FORMS = {
    "csv": "test,verdict,",
    "bencher": '{"test_a.py::test_1":',
    "github-action-benchmark": '[{"name":',
    "markdown": "<!-- pytest-gpuperf -->\n### ",
    "html": "<!doctype html>",
    "svg": "<!-- pytest-gpuperf -->\n<svg",
}


@pytest.mark.parametrize(("form", "begins"), FORMS.items())
def test_an_export_is_the_same_on_standard_output_and_in_a_file(capsys, form, begins):
    written("r.json", record(), record("test_a.py::test_2"))
    assert main(["show", "r.json", "--export", form]) == 0
    printed = capsys.readouterr().out
    for _ in range(2):  # a file of its own form is replaced
        assert main(["show", "r.json", "--export", f"{form}:out"]) == 0
        assert capsys.readouterr().out == f"out: 2 records as {form}\n"
    kept = Path("out").read_bytes().decode()
    assert kept.startswith(begins)
    assert kept.splitlines() == printed.splitlines()


@pytest.mark.parametrize("output", ["", ":out.json"])
def test_a_report_without_times_gives_a_tool_nothing_and_empties_an_earlier_file(call, output):
    written("r.json", record())
    assert call("show", "r.json", "--export=github-action-benchmark:out.json")[0] == 0
    written("r.json", skipped())
    code, lines, _ = call("show", "r.json", "--html=page.html", f"--export=github-action-benchmark{output}")
    why = "because no test has a result for it"
    missing = {"": "github-action-benchmark: nothing,", ":out.json": "out.json: emptied,"}[output]
    assert (code, lines) == (2, ["page.html: 1 record as html", f"{missing} {why}"])
    assert bool(Path("out.json").read_bytes()) == (not output)


def test_an_export_replaces_no_report_and_nobodys_file(refused):
    written("r.json", record())
    written("base.json", record())
    Path("link.json").hardlink_to("r.json")
    Path("folder").mkdir()
    os.mkfifo("pipe")
    said = "base.json is an input of this command; choose another file to write"
    assert said == refused("compare", "base.json", "r.json", "--markdown=base.json")
    for name, why in {
        "r.json": "is an input of this command; choose another file to write",
        "link.json": "is an input of this command; choose another file to write",
        "base.json": "exists and was not written by pytest-gpuperf as csv; choose another file",
        "folder": "is a folder; choose a file in it",
        "pipe": "is not a regular file; choose another",
    }.items():
        assert f"{name} {why}" == refused("show", "r.json", "--export", f"csv:{name}")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("excel:out", f"'excel' is not a format; use one of {', '.join(FORMS)}; pytest writes a suite's own"),
        ("csv:", "csv: names no file; write csv:PATH, or csv for standard output"),
    ],
)
def test_what_is_no_export_is_answered_with_what_is_one(capsys, given, said):
    assert f"argument --export: {said}" in usage(capsys, "show", "r.json", f"--export={given}")


def test_a_place_takes_one_format(refused):
    written("r.json", record())
    Path("it").touch()
    Path("link").symlink_to("it")
    said = "standard output is named for csv and for bencher; choose another"
    assert said == refused("show", "r.json", "--export=csv", "--export=bencher")
    said = "link is named for markdown and for html; choose another"
    assert said == refused("compare", "r.json", "r.json", "--markdown=it", "--html=link")


def test_what_people_read_goes_to_standard_error_where_an_export_is_printed(capsys):
    written("base.json", record(value=20))
    written("r.json", record(value=10))
    assert main(["show", "r.json", "--export=csv", "--html=page.html"]) == 0
    printed, said = capsys.readouterr()
    assert (printed.partition(",")[0], said) == ("test", "page.html: 1 record as html\n")
    assert main(["compare", "base.json", "r.json", "--export=csv"]) == 1
    printed, said = capsys.readouterr()
    assert printed.startswith("test,")
    assert "FAILED: test_a.py::test_1: " in said


def test_an_export_that_has_nothing_leaves_the_answer_of_compare(capsys):
    written("base.json", record())
    written("r.json", skipped())
    assert main(["compare", "base.json", "r.json", "--export=bencher:out.json"]) == 3
    said = capsys.readouterr().out
    assert "FAILED: " in said
    assert "out.json: no file, because no test has a result for it" in said


def test_no_output_is_written_where_it_would_be_read_as_a_report(refused, call):
    Path("reports").mkdir()
    written("reports/base.json", record())
    written("r.json", record())
    for read, output in (("--baseline", "csv:reports/x.json"), ("--history", "html:reports/x")):
        said = refused("show", "r.json", read, "reports", "--html=page.html", "--export", output)
        path = output.partition(":")[2]
        assert said == f"{path} would be read as a report of reports; choose another place"
    assert call("show", "r.json", "--baseline=reports", "--html=reports/page.html")[0] == 0
