"""Journal: what was measured is on the disk as soon as a test has ended, and is found there again."""

import os

import pytest
from cases import for_each
from factories import record, run_of

from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.report.journal import Heading, Journal, is_journal, run_in
from pytest_gpuperf.report.json import codec

HEADING = codec.encode(Heading(started="2026-01-01", environment=run_of().environment)) + b"\n"


def line(nodeid: str) -> bytes:
    return codec.encode(record(nodeid)) + b"\n"


def recovered(path, content: bytes) -> list[str]:
    path.write_bytes(content)
    return [found.nodeid for found in run_in(path).records]


def test_a_journal_is_made_at_its_first_line(tmp_path):
    journal = Journal(tmp_path / "report.json")
    assert list(tmp_path.iterdir()) == []
    journal.close(keep=False)
    assert list(tmp_path.iterdir()) == []


def test_journal_lines_are_there_without_a_close(tmp_path):
    journal = Journal(tmp_path / "report.json")
    journal.add({"a": 1})
    journal.add({"b": 2})
    assert journal.path.read_bytes() == b'{"a":1}\n{"b":2}\n'
    journal.close(keep=False)


def test_a_journal_is_named_after_its_report_and_its_process(tmp_path):
    journal = Journal(tmp_path / "report.json")
    assert journal.path == tmp_path / f"report.json.{os.getpid()}.journal"


def test_a_last_line_that_was_cut_off_is_left_out(tmp_path):
    assert recovered(tmp_path / "cut", HEADING + line("a") + line("b")[:-1]) == ["a"]


def test_a_last_letter_that_was_cut_in_two_is_left_out(tmp_path):
    letter = '{"nodeid":"é'.encode()[:-1]
    assert recovered(tmp_path / "cut", HEADING + line("a") + letter) == ["a"]


@for_each("character", ["\u2028", "\x85"])
def test_only_a_line_feed_ends_a_line(tmp_path, character):
    name = f"one{character}two"
    assert recovered(tmp_path / "whole", HEADING + line(name) + line("three")) == [name, "three"]


def test_an_empty_journal_is_not_whole(tmp_path):
    with pytest.raises(GpuPerfError, match="no whole journal"):
        recovered(tmp_path / "empty", b"")


@for_each(
    ("expected", "content"),
    [
        (True, b'{"started": "", "environment": {}}\n'),
        (True, b'{"started": "", "environment": {}}\n{"nodeid": "a"}\n{"cut o'),
        (False, b""),
        (False, b'{"started": "", "environment": {}}'),  # its first line was not finished
        (False, b'{"started": "", "environment": {}, "records": []}\n'),
        (False, b'{"started": \xff}\n'),
        (False, b'{"started": \n}'),
        (False, b'{"nodeid": "a"}\n{"started": "", "environment": {}}\n'),
    ],
)
def test_a_journal_is_known_by_its_heading(expected, content):
    assert expected is is_journal(content)


def test_a_closed_journal_is_removed(tmp_path):
    journal = Journal(tmp_path / "report.json")
    journal.add("line")
    journal.close(keep=False)
    assert list(tmp_path.iterdir()) == []


def test_a_journal_with_the_only_copy_is_kept(tmp_path):
    journal = Journal(tmp_path / "report.json")
    journal.add("line")
    journal.close(keep=True)
    assert journal.path.read_bytes() == b'"line"\n'


@pytest.mark.parametrize("keep", [True, False])
def test_closing_a_journal_that_is_gone_already_is_no_error(tmp_path, keep):
    journal = Journal(tmp_path / "report.json")
    journal.add("line")
    journal.path.unlink()
    journal.close(keep=keep)
    assert list(tmp_path.iterdir()) == []


def test_a_journal_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        Journal(tmp_path / "nowhere" / "report.json").add("line")
