"""gpuperf export."""

import csv
import os
from io import StringIO
from pathlib import Path

import pytest
from command import HOSTILE, record, usage, written

from pytest_gpuperf.cli import main

FORMS = {
    "pytest-benchmark": "{",
    "github-action-benchmark": "[",
    "bencher": "{",
    "csv": "test,",
    "markdown": "<!-- pytest-gpuperf -->",
    "svg": "<!-- pytest-gpuperf -->",
}


@pytest.mark.parametrize(("form", "begins"), FORMS.items())
def test_an_export_is_the_same_on_standard_output_and_in_a_file(capsys, form, begins):
    written("r.json", record(), record("test_a.py::test_2"))
    assert main(["export", "r.json", "--as", form]) == 0
    printed = capsys.readouterr().out
    assert main(["export", "r.json", "--as", form, "-o", "out"]) == 0
    assert capsys.readouterr().out == f"out: 2 records as {form}\n"
    kept = Path("out").read_bytes().decode()
    assert kept.startswith(begins)
    assert kept.splitlines() == printed.splitlines()


@pytest.mark.parametrize("output", [[], ["-o", "out.json"]])
def test_a_report_without_times_gives_a_tool_nothing(refused, output):
    written("r.json", record(status="skipped", reason="no GPU", cpu=None, gpu=None, speedup=None))
    said = refused("export", "r.json", "--as", "github-action-benchmark", *output)
    assert said == "r.json: no file, because no test has a result for it"


def test_an_export_as_csv_has_a_row_for_each_test(capsys):
    written("r.json", record(), record(HOSTILE))
    main(["export", "r.json", "--as=csv"])
    rows = list(csv.DictReader(StringIO(capsys.readouterr().out)))
    assert len(rows) == 2
    assert float(rows[0]["speedup_x"]) == 10


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("output", ["r.json", "./r.json", "link.json"])
def test_an_export_does_not_overwrite_its_report(refused, form, output):
    written("r.json", record())
    Path("link.json").hardlink_to("r.json")
    said = refused("export", "r.json", "--as", form, "-o", output)
    assert said == f"{Path(output)} is an input of this command; choose another file to write"


@pytest.mark.parametrize("form", FORMS)
def test_an_export_leaves_a_report_and_other_peoples_json_as_they_are(refused, form):
    written("r.json", record())
    written("base.json", record())
    Path("package.json").write_text('{"name": "mine", "private": true}')
    for name in ("base.json", "package.json"):
        said = refused("export", "r.json", "--as", form, "-o", name)
        assert said == f"{name} exists and is not a file of {form}; choose another file"


@pytest.mark.parametrize("form", FORMS)
def test_an_export_overwrites_its_own_form_and_an_empty_file_only(refused, call, form):
    written("r.json", record())
    Path("mine").write_text("my notes")
    said = refused("export", "r.json", "--as", form, "-o", "mine")
    assert said == f"mine exists and is not a file of {form}; choose another file"
    Path("mine").write_text("")
    assert [call("export", "r.json", "--as", form, "-o", "mine")[0] for _ in range(2)] == [0, 0]


def test_an_export_goes_into_no_folder_and_no_pipe(refused):
    written("r.json", record())
    Path("folder").mkdir()
    os.mkfifo("pipe")
    assert (
        refused("export", "r.json", "--as=csv", "-o", "folder") == "folder is a folder; choose a file in it"
    )
    assert "pipe is not a regular file" in refused("export", "r.json", "--as=csv", "-o", "pipe")


def test_an_unknown_form_is_answered_with_the_known_ones(capsys):
    assert "choose from" in usage(capsys, "export", "r.json", "--as=excel")
