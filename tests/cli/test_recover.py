"""gpuperf recover."""

import json
import os
from pathlib import Path

import pytest
from command import NO_GPU, inputs, journaled, read, record, written
from factories import GPU, HERE, measured
from msgspec.structs import replace


def test_recover_takes_nothing_that_is_there(refused):
    inputs()
    written("out", record())
    assert refused("recover", "r.journal", "out") == "out exists; name a new file, so that nothing is lost"


def test_a_journal_that_cannot_be_read_is_named(refused):
    Path("folder").mkdir()
    os.mkfifo("pipe")
    assert refused("recover", "nowhere", "out") == "nowhere: No such file or directory"
    assert refused("recover", "folder", "out") == "folder: Is a directory"
    assert refused("recover", "pipe", "out") == "pipe: it is not a regular file"


def test_a_recovered_report_has_the_gpu_that_only_its_records_tell(call):
    emulated = measured(replace(GPU, emulated=True), 1e-3)
    alone = record(gpu=None, speedup=None)
    journaled(alone, record(OTHER, gpu=emulated), environment=replace(HERE, gpu=None))
    said = ["out: 2 records recovered; r.journal can be removed"]
    assert (0, said, "") == call("recover", "r.journal", "out")
    assert read("out")["complete"] is False
    found = read("out")["environment"]
    assert ("H200", None) == (found["gpu"]["name"], found["gpu_reason"])
    assert "emulated: H200 through cupy, not a GPU" in call("show", "out")[1][0]


@pytest.mark.parametrize(
    ("expected", "environment"), [(GPU.name, HERE), (None, NO_GPU)], ids=["a heading's own", "none at all"]
)
def test_a_recovered_report_has_the_gpu_of_its_heading(call, expected, environment):
    other = measured(replace(GPU, name="another"), 1e-3)
    journaled(record(gpu=other if environment.gpu else None, speedup=None), environment=environment)
    call("recover", "r.journal", "out")
    found = read("out")["environment"]
    assert (expected, environment.gpu_reason) == (found["gpu"] and found["gpu"]["name"], found["gpu_reason"])


def test_a_journal_is_called_so_and_how_to_make_a_report_of_it(refused):
    inputs()
    assert refused("show", "r.journal") == (
        "r.journal: this is the journal of an unfinished run; gpuperf recover JOURNAL REPORT turns it into a "
        "report"
    )


def test_a_report_needs_no_recovery(refused):
    written("r.json", record())
    said = "r.json is a report, not a journal, and needs no recovery"
    assert refused("recover", "r.json", "out") == said
    Path("r.json").write_text(json.dumps(read("r.json")) + "\n", encoding="utf-8")  # on one line
    assert refused("recover", "r.json", "out") == said


@pytest.mark.parametrize("length", [0, 100])
def test_a_journal_whose_first_line_was_cut_off_is_called_so(refused, length):
    journaled()
    os.truncate("r.journal", length)
    said = "r.journal has no whole line: the run ended before it measured anything"
    assert refused("recover", "r.journal", "out") == said


OTHER = "test_a.py::test_2"
