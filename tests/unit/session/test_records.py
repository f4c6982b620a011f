"""Record store: records of this process and of others are held and journaled, and none is lost."""

import json

import pytest
from factories import record, run_of

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.report.json import codec
from pytest_gpuperf.session.records import RecordStore


def sent(record, **changes) -> dict:
    """Return a record as it comes from another process."""
    return json.loads(json.dumps(codec.dump(record))) | changes


def test_a_record_that_this_process_attached_is_not_read_again():
    kept, store = record("test_a"), RecordStore(None)
    store.keep(kept)
    store.receive(store.attach("test_a"))
    assert store.by_nodeid["test_a"] is kept


def test_a_record_of_another_process_is_read():
    store = RecordStore(None)
    store.receive(sent(record("test_a")))
    assert {"test_a": record("test_a")} == store.by_nodeid


def test_a_record_that_no_report_can_hold_stays_in_the_journal(tmp_path):
    store = RecordStore(tmp_path / "report.json")
    content = sent(record("test_a"), elapsed=-1.0)
    store.receive(content)
    store.journal(content, lambda: run_of().environment)
    store.write(run_of())
    assert "was not written: it breaks its schema at $.elapsed: " in store.unwritten
    (journal,) = tmp_path.iterdir()
    assert store.unwritten.endswith(f"what was measured is in {journal}")
    assert content == json.loads(journal.read_text(encoding="utf-8").splitlines()[1])


def test_without_a_report_it_is_said_that_a_record_cannot_be_read():
    store = RecordStore(None)
    store.refuse(GpuPerfError("it breaks its schema"))
    store.write(run_of())
    assert store.unwritten == "not all that was measured is shown: it breaks its schema"


@pytest.mark.parametrize("wild", [float("nan"), float("inf"), 10**400], ids=["nan", "inf", "huge"])
def test_a_record_that_json_cannot_hold_ends_the_journal_with_the_reason(tmp_path, wild):
    store = RecordStore(tmp_path / "report.json")
    store.journal(codec.dump(record("test_a", elapsed=wild)), lambda: run_of().environment)
    assert "cannot be written: the number at $.elapsed is not finite" in store.unwritten
    store.write(run_of())
