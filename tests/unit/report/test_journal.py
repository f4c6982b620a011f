"""Journal: what was measured is on the disk as soon as a test has ended, and is found there again."""

import json
import os
import re
import shlex
import sys
import tracemalloc
from errno import ENOLCK

import pytest
from cases import for_each
from factories import record, run_of

from pytest_gpuperf.cli import main
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.report.journal import (
    Heading,
    Journal,
    is_journal,
    left_behind,
    recovery_command,
    run_in,
)
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
    journal.add("a")
    journal.add("b")
    assert journal.path.read_bytes() == b"a\nb\n"
    journal.close(keep=False)


def test_no_two_journals_have_one_name(tmp_path):
    """Runs in containers have the same process id: the second must neither overwrite nor remove the first."""
    report = tmp_path / "report.json"
    first, second = Journal(report), Journal(report)
    first.add("killed")
    second.add("later")
    second.close(keep=False)
    assert [first.path] == list(tmp_path.iterdir())
    assert first.path.read_bytes() == b"killed\n"
    assert re.fullmatch(r"report\.json\.[0-9a-f]{12}\.journal", first.path.name)
    first.close(keep=False)


def test_a_file_in_the_place_of_a_journal_is_neither_overwritten_nor_removed(tmp_path):
    journal = Journal(tmp_path / "report.json")
    journal.path.symlink_to(tmp_path / "victim")
    with pytest.raises(FileExistsError):
        journal.add("line")
    journal.close(keep=False)
    assert [journal.path] == list(tmp_path.iterdir())


def test_a_journal_of_a_report_that_is_a_link_is_beside_the_real_one(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "report.json").touch()
    (tmp_path / "link.json").symlink_to("real/report.json")
    assert Journal(tmp_path / "link.json").path.parent == tmp_path / "real"


@pytest.fixture
def journal(tmp_path):
    """Write the journal of a run, as if it had been killed if it is closed."""
    written = Journal(tmp_path / "report.json")
    written.add(HEADING.decode().strip())
    written.add(line("test_a").decode().strip())
    yield written
    written.close(keep=True)


def test_a_journal_that_was_left_behind_is_found(tmp_path, journal):
    journal.close(keep=True)
    assert [journal.path] == left_behind(tmp_path / "report.json")


def test_a_journal_that_was_left_behind_is_found_where_a_link_leads(tmp_path, journal):
    journal.close(keep=True)
    (tmp_path / "report.json").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "link.json").symlink_to(tmp_path / "report.json")
    assert [journal.path] == left_behind(tmp_path / "other" / "link.json")


def test_a_journal_of_a_run_that_goes_on_was_not_left_behind(tmp_path, journal):
    assert [] == left_behind(tmp_path / "report.json")


def test_where_no_file_can_be_locked_every_run_may_go_on(tmp_path, journal, monkeypatch):
    journal.close(keep=True)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    assert [] == left_behind(tmp_path / "report.json")


def test_where_a_file_system_has_no_locks_every_run_may_go_on(tmp_path, journal, monkeypatch):
    def flock(file, operation):
        raise OSError(ENOLCK, "No locks available")

    journal.close(keep=True)
    monkeypatch.setattr("fcntl.flock", flock)
    assert [] == left_behind(tmp_path / "report.json")


def test_a_journal_that_was_recovered_was_not_left_behind(tmp_path, journal):
    journal.close(keep=True)
    program, *arguments = shlex.split(recovery_command(journal.path))
    assert ("gpuperf", 0) == (program, main(arguments))
    assert [] == left_behind(tmp_path / "report.json")


@pytest.mark.parametrize(
    "name",
    [
        "report.json.journal",
        "other.json.12ab.journal",
        "report.json.12ab.journal.txt",
        "reportxjson.1.journal",
    ],
)
def test_a_journal_of_another_name_is_another_reports(tmp_path, journal, name):
    journal.close(keep=True)
    journal.path.rename(tmp_path / name)
    assert [] == left_behind(tmp_path / "report.json")


@pytest.mark.parametrize("content", [b"", HEADING, HEADING + b'{"cut o', b"{}\n{}\n"])
def test_a_journal_without_a_record_was_not_left_behind(tmp_path, content):
    (tmp_path / "report.json.12ab.journal").write_bytes(content)
    assert [] == left_behind(tmp_path / "report.json")


@for_each("heading", [b"", HEADING])
def test_of_a_huge_file_in_the_place_of_a_journal_only_a_part_is_read(tmp_path, heading):
    planted = tmp_path / "report.json.12ab.journal"
    planted.write_bytes(heading)
    os.truncate(planted, 100_000_000)
    tracemalloc.start()
    try:
        assert [] == left_behind(tmp_path / "report.json")
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()


def test_what_is_no_file_was_not_left_behind(tmp_path, journal):
    journal.close(keep=True)
    (tmp_path / "report.json.1.journal").symlink_to(journal.path)
    (tmp_path / "report.json.2.journal").mkdir()
    os.mkfifo(tmp_path / "report.json.3.journal")
    assert [journal.path] == left_behind(tmp_path / "report.json")
    assert [] == left_behind(tmp_path / "no folder" / "report.json")


def test_a_journal_that_a_test_removed_or_replaced_is_not_there(journal):
    assert journal.is_there
    journal.path.unlink()
    assert not journal.is_there
    journal.path.touch()
    assert not journal.is_there


def test_a_journal_keeps_each_run_of_a_test_and_the_last_attempt_of_a_rerun(tmp_path):
    lines = [record("a"), record("a"), record("a", reruns=1), record("b")]
    content = HEADING + b"".join(codec.encode(each) + b"\n" for each in lines)
    (tmp_path / "journal").write_bytes(content)
    found = run_in(tmp_path / "journal").records
    assert {"a": 0, "a#2": 1, "b": 0} == {each.nodeid: each.reruns for each in found}


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


@pytest.mark.parametrize("status", ["bogus", 3, None])
def test_a_record_that_is_none_of_ours_is_named(tmp_path, status):
    """As of a later version that knows more of them."""
    content = line("a").replace(b'"status":"passed"', f'"status":{json.dumps(status)}'.encode())
    with pytest.raises(GpuPerfError, match=r"no whole journal of a run: it breaks its schema at \$\.status"):
        recovered(tmp_path / "wrong", HEADING + content)


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
    assert journal.path.read_bytes() == b"line\n"


@pytest.mark.parametrize("keep", [True, False])
def test_closing_a_journal_that_is_gone_already_is_no_error(tmp_path, keep):
    journal = Journal(tmp_path / "report.json")
    journal.add("line")
    journal.path.unlink()
    journal.close(keep=keep)
    assert list(tmp_path.iterdir()) == []


def test_a_journal_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "a file").touch()
    with pytest.raises(NotADirectoryError):
        Journal(tmp_path / "a file" / "report.json").add("line")
