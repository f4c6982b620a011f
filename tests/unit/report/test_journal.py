"""Journal: what was measured is on the disk as soon as a test has ended, and is found there again."""

import os

import pytest

from pytest_gpuperf.report.journal import Journal, is_journal, lines


def test_a_journal_is_made_at_its_first_line(tmp_path):
    journal = Journal(tmp_path / "report.json")
    assert list(tmp_path.iterdir()) == []
    journal.close(keep=False)
    assert list(tmp_path.iterdir()) == []


def test_journal_lines_are_there_without_a_close(tmp_path):
    journal = Journal(tmp_path / "report.json")
    journal.add({"a": 1})
    journal.add({"b": 2})
    assert list(lines(journal.path)) == [b'{"a":1}', b'{"b":2}']
    journal.close(keep=False)


def test_a_journal_is_named_after_its_report_and_its_process(tmp_path):
    journal = Journal(tmp_path / "report.json")
    assert journal.path == tmp_path / f"report.json.{os.getpid()}.journal"


def test_a_last_line_that_was_cut_off_is_left_out(tmp_path):
    path = tmp_path / "cut.journal"
    path.write_text('{"a": 1}\n{"b": ', encoding="utf-8")
    assert list(lines(path)) == [b'{"a": 1}']


def test_a_last_letter_that_was_cut_in_two_is_left_out(tmp_path):
    path = tmp_path / "cut.journal"
    path.write_bytes('{"a": 1}\n{"b": "é'.encode()[:-1])
    assert list(lines(path)) == [b'{"a": 1}']


@pytest.mark.parametrize("character", ["\u2028", "\x85", "\x0c", "\r"])
def test_only_a_line_feed_ends_a_line(tmp_path, character):
    path = tmp_path / "whole.journal"
    path.write_bytes(f"one{character}two\nthree\n".encode())
    assert list(lines(path)) == [f"one{character}two".encode(), b"three"]


def test_an_empty_journal_has_no_lines(tmp_path):
    path = tmp_path / "empty.journal"
    path.touch()
    assert list(lines(path)) == []


@pytest.mark.parametrize(
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
    assert list(lines(journal.path)) == [b'"line"']


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
