"""The export formats by their names, and what all of them do with numbers and texts."""

import json
import subprocess
import sys
from dataclasses import replace
from math import inf

import pytest
from cases import for_each
from factories import GPU, measurement, record, run_of, skipped, speedup
from hypothesis import given
from hypothesis import strategies as st
from strategies import HOSTILE

from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.demand import Outputs
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Environment
from pytest_gpuperf.report import exports, outputs, paths
from pytest_gpuperf.report.escape import distinct

NODEID = "tests/test_fft.py::test_fft"


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
    environment = Environment(
        host={"name": anything},
        cpu={"name": anything},
        gpu=device,
        gpu_reason=None,
        python=anything,
        packages={},
    )
    hostile = record(anything, reason=anything, gpu=measurement(device, 0.1))
    run = run_of(hostile, environment=environment, commit=Commit(id=anything, branch=anything))
    content = exports.text(format, run)
    if format != "csv":
        content = json.dumps(json.loads(content), ensure_ascii=False)  # what a reader has after decoding
    assert content.encode().decode() == content


@pytest.mark.parametrize("format", ["pytest-benchmark", "github-action-benchmark", "bencher"])
def test_a_run_without_times_gives_a_tool_nothing_and_leaves_no_file_of_an_earlier_run(tmp_path, format):
    run, path = run_of(skipped("a")), tmp_path / "export.json"
    path.write_text("of yesterday")
    lines, problems = outputs.publish(run, Outputs(exports=((format, path),)), None)
    assert ([f"export as {format}: no file, because no test has a result for it"], []) == (lines, problems)
    assert not path.exists()


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
