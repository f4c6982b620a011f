"""Record store: records of this process and of others are held and journaled, and none is lost."""

import json
import os
from io import StringIO
from pathlib import Path

import pytest
from cases import for_each
from factories import GPU, HERE, record, run_of, skipped
from msgspec.structs import replace

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import Clocks
from pytest_gpuperf.report.journal import run_in
from pytest_gpuperf.report.json import codec
from pytest_gpuperf.report.reader import load_report
from pytest_gpuperf.session.records import RecordStore


def sent(record, **changes) -> str:
    """Return a record as it comes from another process."""
    return json.dumps(codec.dump(record) | changes)


def receive(store, line, environment=HERE) -> None:
    store.receive(line, None, lambda: environment)


def end(store, made, environment=HERE) -> None:
    """Keep a test's record, and send it with pytest's report to the same process."""
    receive(store, store.attach(store.keep(made).nodeid), environment)


def reported(folder) -> list[str]:
    """Return the node ids in the report of a folder, in which there is nothing else."""
    (path,) = folder.iterdir()
    return [found.nodeid for found in load_report(path).records]


def test_a_record_of_another_process_is_read_and_one_of_this_is_not_read_again():
    kept, store = record("test_a"), RecordStore(None)
    store.keep(kept)
    receive(store, store.attach("test_a"))
    assert store.by_nodeid["test_a"] is kept
    receive(store, sent(record("test_b")))
    assert {"test_a": kept, "test_b": record("test_b")} == store.by_nodeid


def test_a_record_that_changed_is_written_anew(tmp_path):
    store = RecordStore(tmp_path / "report.json")
    end(store, record("test_a"))
    receive(store, sent(record("test_b")))
    store.keep(replace(record("test_a"), expected_failure=True))
    store.write(run_of(*store.by_nodeid.values()))
    assert [True, False] == [each.expected_failure for each in load_report(store.report).records]


def test_a_record_of_another_process_that_cannot_be_read_costs_no_other(tmp_path):
    store = RecordStore(tmp_path / "report.json")
    receive(store, sent(record("test_a"), elapsed=-1.0))
    receive(store, sent(record("test_b")))
    store.write(run_of(*store.by_nodeid.values()))
    assert "not all that was measured is in the report: it breaks its schema at $.elapsed" in store.unwritten
    assert ["test_b"] == reported(tmp_path)


@pytest.mark.parametrize(
    ("said", "changes"),
    [
        ("not finite", {"elapsed": float("nan")}),
        ("$.cpu.setup", {"cpu": replace(record("test_a").cpu, setup=-1559.0)}),
    ],
    ids=["nan", "negative"],
)
def test_an_impossible_number_costs_its_record_and_no_other(tmp_path, said, changes):
    store = RecordStore(tmp_path / "report.json")
    for made in (record("test_a", **changes), skipped("test_c", elapsed=-1.0), record("test_b")):
        end(store, made)
    store.write(run_of(*store.by_nodeid.values()))
    assert store.unwritten is None
    lost = store.by_nodeid["test_a"]
    assert ("error", None, None, None) == (lost.status, lost.cpu, lost.gpu, lost.speedup)
    assert lost.reason.startswith("what was measured is impossible and not kept: ")
    assert said in lost.reason
    assert ["test_a", "test_c", "test_b"] == reported(tmp_path)


def test_without_a_report_it_is_said_that_a_record_cannot_be_read():
    store = RecordStore(None)
    store.refuse(GpuPerfError("it breaks its schema"))
    store.write(run_of())
    assert store.unwritten == "not all that was measured is shown: it breaks its schema"


@pytest.mark.parametrize(
    "changes",
    [
        {"gpu": replace(GPU, memory=-5)},
        {"clocks_at_end": Clocks(sm_mhz=1, memory_mhz=1, celsius=1, watts=float("nan"), throttle=())},
    ],
    ids=["memory", "clocks"],
)
def test_an_impossible_number_of_the_gpu_costs_no_record(tmp_path, changes):
    environment = replace(run_of().environment, **changes)
    store = RecordStore(tmp_path / "report.json")
    end(store, record("test_a"), environment)
    assert ["test_a"] == [found.nodeid for found in run_in(next(tmp_path.iterdir())).records]
    store.write(replace(run_of(*store.by_nodeid.values()), environment=environment))
    assert store.unwritten is None
    assert ["test_a"] == reported(tmp_path)


def full(monkeypatch):
    """Let the disk be too full for a report."""

    def raises(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", raises)


class NoSpace(StringIO):
    """A journal for which the disk is too full."""

    def flush(self):
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("is_gone", [False, True])
def test_it_is_said_where_what_was_measured_is(tmp_path, monkeypatch, is_gone):
    store = RecordStore(tmp_path / "report.json")
    for made in (record("test_a"), record("test_b"), skipped("test_c")):
        end(store, made)
    (journal,) = tmp_path.iterdir()
    if is_gone:
        journal.unlink()
    full(monkeypatch)
    store.write(run_of(*store.by_nodeid.values()))
    assert "was not written: [Errno 28] No space left on device" in store.unwritten
    assert is_gone == (f"; what was measured is in {journal}" not in store.unwritten)
    if not is_gone:
        assert ["test_a", "test_b", "test_c"] == [found.nodeid for found in run_in(journal).records]


@for_each("is_full", [True, False])
def test_a_journal_that_could_not_be_written_is_no_loss_where_there_is_a_report(tmp_path, is_full):
    store = RecordStore(tmp_path / "report.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pytest_gpuperf.report.files.open_new", lambda path: path.touch() or NoSpace())
        end(store, record("test_a"))
    with pytest.MonkeyPatch.context() as patch:
        if is_full:
            full(patch)
        store.write(run_of(*store.by_nodeid.values()))
    if is_full:
        assert "cannot be written: [Errno 28] No space left on device" in store.unwritten
        assert "what was measured" not in store.unwritten
    else:
        assert (store.unwritten, ["test_a"]) == (None, reported(tmp_path))


def test_a_test_that_broke_python_ends_no_run(tmp_path, monkeypatch):
    store = RecordStore(tmp_path / "report.json")
    monkeypatch.setattr(os, "open", None)
    monkeypatch.setattr(Path, "open", None)
    end(store, record("test_a"))
    store.write(run_of(*store.by_nodeid.values()))
    assert "was not written: 'NoneType' object is not callable; the journal " in store.unwritten
