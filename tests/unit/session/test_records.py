"""Records of a run: whatever becomes of one, or of the disk, none of the others is lost."""

from fnmatch import fnmatch
from math import nan

import pytest
from factories import record, run_of, threshold

from pytest_gpuperf.report.journal import run_in
from pytest_gpuperf.report.reader import load_report
from pytest_gpuperf.session.records import RecordStore

SUITE = """
import os
from pathlib import Path

folder = Path("new")
report = folder / "r.json"

def journal():
    return next(folder.glob("*.journal"))

@pytest.mark.speedup
def test_first(device):
    {first}
    return lambda: device.launch()

@pytest.mark.speedup
def test_second(device):
    {second}
    return lambda: device.launch()

def test_last():
    {last}
"""
LYING = """
    from contextlib import contextmanager
    from msgspec.structs import replace

    TIMES = []
    GPU = BACKEND.gpu("")
    GPU.info = replace(GPU.info, memory={memory})
    observe = GPU.observe

    @contextmanager
    def observe_and_lie():
        with observe() as seen:
            yield seen
        seen.device_time = TIMES[-1] if TIMES else None

    GPU.observe = observe_and_lie

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(report):
        if report.nodeid == "test_it.py::{garbled}" and hasattr(report, "gpuperf"):
            report.gpuperf = report.gpuperf.replace('"elapsed":', '"elapsed":-')
"""


@pytest.fixture
def ran(suite):
    """Run two speedup tests and a last one, each of which does something else, too."""

    def call(first="pass", second="pass", last="pass", memory=1, garbled="", **changes):
        source = SUITE.format(first=first, second=second, last=last)
        found = suite(source, conftest=LYING.format(memory=memory, garbled=garbled), **changes)
        found.said = " ".join(str(found.result.stdout).split())
        return found

    return call


@pytest.mark.parametrize(
    ("said", "time"),
    [
        ("gpu: it breaks its schema at $.gpu.inspection.device_time: ", "-1.0"),
        ("gpu: a number is not finite: ", "float('nan')"),
    ],
)
def test_an_impossible_number_costs_its_field_and_no_record(ran, said, time):
    found = ran(first=f"conftest.TIMES.append({time})", second="conftest.TIMES.clear()")
    assert {"test_first": "error", "test_second": "recorded"} == found.statuses
    lost = found.records["test_first"]
    assert (None, None) == (lost["gpu"], lost["speedup"])
    assert lost["cpu"] is not None
    assert lost["reason"].startswith(f"what was measured is impossible and not kept: {said}")


def test_an_impossible_number_of_the_gpu_costs_no_report(ran):
    found = ran(memory=-5)
    assert ["error"] * 2 == [*found.statuses.values()]
    environment = found.written["environment"]
    assert None is environment["gpu"]
    assert environment["gpu_reason"].startswith("what its backend says of it is impossible: it breaks its")


def test_what_a_report_cannot_hold_of_the_run_costs_no_report_and_is_said(tmp_path):
    store = RecordStore(tmp_path / "r.json")
    store.write(run_of(record(), thresholds=(threshold(at_most=nan),)))
    assert "r.json is written without what it cannot hold: thresholds: a number is not" in store.unwritten
    assert run_of(record()) == load_report(store.report)


def test_a_record_of_another_process_that_cannot_be_read_costs_no_other(ran):
    found = ran(garbled="test_first")
    assert "test_second" in found.records
    assert "not all that was measured is in the report: it breaks its schema at $.elapsed" in found.said
    found = ran(garbled="test_first", ours=["--gpuperf-gpu=cupy"])
    assert "not all that was measured is shown: it breaks its schema at $.elapsed" in found.said


@pytest.mark.parametrize(
    ("said", "is_kept", "first", "last"),
    [
        ("r.json was not written: [[]Errno 21] Is a directory", True, "pass", "report.mkdir()"),
        ("r.json was not written: [[]Errno 21] *", False, "pass", "report.mkdir(), journal().unlink()"),
        ("r.json was not written: 'NoneType' object is not callable", True, "os.fsync = None", "pass"),
        ("r.json was not written: *; the journal * cannot be written: *", False, "folder.touch()", "pass"),
        ("report: *r.json", False, "folder.touch()", "folder.unlink()"),
    ],
)
def test_it_is_said_where_what_was_measured_is(ran, said, is_kept, first, last):
    found = ran(first=first, last=last, ours=["--gpuperf-gpu=cupy", "--gpuperf-json=new/r.json"])
    assert fnmatch(found.said, f"*{said}*")
    journals = [*found.path.glob("new/*.journal")]
    assert is_kept == len(journals) == found.said.count("what was measured is in ")
    for journal in journals:
        assert f"what was measured is in {journal}" in found.said
        assert 2 == len(run_in(journal).records)
