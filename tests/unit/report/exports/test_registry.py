"""The export formats by their names, and what all of them do with numbers and texts."""

import json
import subprocess
import sys
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
from cases import for_each
from factories import GPU, HERE, NODEID, measurement, record, run_of, skipped, speedup
from hypothesis import given
from hypothesis import strategies as st
from strategies import HOSTILE

from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.demand import Outputs
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.report import exports, outputs, paths
from pytest_gpuperf.report.names import distinct


def test_the_formats_are_those_of_the_documentation():
    assert ["pytest-benchmark", "github-action-benchmark", "bencher", "csv"] == list(paths.EXPORTS)


def test_a_format_is_loaded_when_it_is_asked_for():
    program = "import sys; from pytest_gpuperf.report import exports; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert "pytest_gpuperf.report.exports " in f"{modules.strip()} "
    assert "pytest_gpuperf.report.exports." not in modules


@pytest.mark.parametrize("format", paths.EXPORTS)
@given(anything=HOSTILE)
def test_every_format_can_be_encoded_whatever_a_test_is_called(format, anything):
    device = replace(GPU, name=anything, backend=anything)
    environment = replace(HERE, host={"name": anything}, cpu={"name": anything}, gpu=device, python=anything)
    hostile = record(anything, reason=anything, gpu=measurement(device, 0.1))
    run = run_of(hostile, environment=environment, commit=Commit(id=anything, branch=anything))
    content = exports.text(format, run)
    if format != "csv":
        content = json.dumps(json.loads(content), ensure_ascii=False)  # what a reader has after decoding
    assert content.encode().decode() == content


WITHOUT_A_TABLE = ["pytest-benchmark", "github-action-benchmark", "bencher"]


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Return the line of an export, `export.json`, to which a run has nothing to give."""
    monkeypatch.chdir(tmp_path)

    def call(format: str) -> str:
        chosen = Outputs(exports=((format, Path("export.json")),))
        (line,), problems = outputs.publish(run_of(skipped("a")), chosen, None)
        assert problems == []
        return line.removeprefix(f"export as {format}: ")

    return call


@pytest.mark.parametrize("format", WITHOUT_A_TABLE)
def test_a_run_without_times_removes_the_export_of_an_earlier_run(published, format):
    assert published(format) == "no file, because no test has a result for it"
    Path("export.json").write_text(exports.text(format, run_of(record("a"))))
    assert published(format) == "removed export.json, because no test has a result for it"
    assert not Path("export.json").exists()


@pytest.mark.parametrize("format", WITHOUT_A_TABLE)
def test_a_run_without_times_empties_the_export_to_which_a_link_leads(published, format):
    Path("real.json").write_text(exports.text(format, run_of(record("a"))))
    Path("export.json").symlink_to("real.json")
    real = Path("real.json").resolve()
    assert published(format) == f"emptied {real}, because no test has a result for it"
    assert (b"", True) == (real.read_bytes(), Path("export.json").is_symlink())


@pytest.mark.parametrize("format", WITHOUT_A_TABLE)
def test_a_run_without_times_leaves_what_another_tool_wrote(published, format):
    Path("export.json").write_text("theirs")
    assert published(format) == "no file, because no test has a result for it"
    assert Path("export.json").read_text() == "theirs"


@for_each("format", ["pytest-benchmark", "github-action-benchmark", "bencher"])
def test_a_number_that_json_has_not_is_an_error(format):
    endless = record(speedup=speedup(value=inf))
    with pytest.raises(GpuPerfError, match="not finite"):
        exports.text(format, run_of(endless))


@given(st.text(st.characters()))
def test_text_is_made_printable(anything):
    assert printable(anything).isprintable()
    assert printable(anything) == anything or not anything.isprintable()


@for_each(
    ("expected", "anything"),
    [("a\\x1bb", "a\x1bb"), ("\\udc80", "\udc80"), ("a\\nb", "a\nb"), ("\\u202e", "\u202e"), ("é |", "é |")],
)
def test_what_cannot_be_shown_is_written_out(expected, anything):
    assert expected == printable(anything)


@given(st.lists(HOSTILE, unique=True), st.sampled_from([None, 40]))
def test_names_stay_different_and_short(names, longest):
    found = [distinct(name, longest) for name in names]
    assert len(set(found)) == len(names)
    assert all(found)
    assert all(longest is None or len(name.encode()) <= longest for name in found)


def test_a_name_that_needs_no_change_stays():
    assert distinct(NODEID, 1024) == NODEID
