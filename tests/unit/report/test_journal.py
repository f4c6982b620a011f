"""Results of tests, and the journal in which each is on the disk as soon as its test has ended."""

import os
import re
import shlex
import sys

import pytest
from cases import for_each
from factories import record, run_of
from msgspec.structs import replace

from pytest_gpuperf.cli import main
from pytest_gpuperf.model.demand import Pairing, SizeGroup
from pytest_gpuperf.report.journal import (
    Heading,
    Journal,
    Results,
    left_behind,
    recovery_command,
    run_in,
)
from pytest_gpuperf.report.json import codec, document

HEADING = codec.encode(Heading(started="2026-01-01", environment=run_of().environment)) + b"\n"


def line(nodeid: str, **changes) -> bytes:
    return codec.encode(record(nodeid, **changes)) + b"\n"


def recovered(path, content: bytes) -> dict[str, int]:
    """Return the records in a journal: the node id of each, and how often it was rerun."""
    path.write_bytes(content)
    return {found.nodeid: found.reruns for found in run_in(path).records}


@pytest.mark.parametrize("keep", [True, False])
def test_lines_are_there_without_a_close_which_removes_them_unless_they_are_the_only_copy(tmp_path, keep):
    journal = Journal(tmp_path / "report.json")
    assert list(tmp_path.iterdir()) == []
    journal.add("a")
    journal.add("b")
    assert journal.path.read_bytes() == b"a\nb\n"
    journal.close(keep=keep)
    assert journal.path.exists() is keep
    journal.path.unlink(missing_ok=True)
    journal.close(keep=keep)  # of one that is gone already is no error


def test_no_two_journals_have_one_name(tmp_path):
    """Runs in containers have the same process id: the second must neither overwrite nor remove the first."""
    first, second = Journal(tmp_path / "report.json"), Journal(tmp_path / "report.json")
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


@for_each("letter", ["x", "é", "\U0001f600", "\udcff", "["])
def test_a_journal_has_a_name_and_is_found_again_however_long_the_report_s_is(tmp_path, letter):
    most = (255 - len(".json")) // len(os.fsencode(letter))
    reports = [
        tmp_path / f"{letter * most}.json",
        tmp_path / f"{letter * (most - 1)}.json",
    ]  # which begin alike
    journals = [Journal(report) for report in reports]
    for each in journals:
        each.add(HEADING.decode().strip())
        each.add(line("test_a").decode().strip())
        each.close(keep=True)
        assert 143 >= len(os.fsencode(each.path.name))
    assert [[each.path] for each in journals] == [*map(left_behind, reports)]
    for each in journals:
        each.path.unlink()


# -- one that was left behind --------------------------------------------------------------------


@pytest.fixture
def journal(tmp_path):
    """Write the journal of a run, as if it had been killed if it is closed."""
    written = Journal(tmp_path / "report[1].json")
    written.add(HEADING.decode().strip())
    written.add(line("test_a").decode().strip())
    yield written
    written.close(keep=True)


def test_a_journal_that_was_left_behind_is_found_until_it_was_recovered(tmp_path, journal):
    report, link = tmp_path / "report[1].json", tmp_path / "other" / "link.json"
    assert [] == left_behind(report)  # the run goes on
    journal.close(keep=True)
    assert [journal.path] == left_behind(report)
    report.touch()
    link.parent.mkdir()
    link.symlink_to(report)
    assert journal.path.parent == Journal(link).path.parent
    assert [journal.path] == left_behind(link)
    program, *arguments = shlex.split(recovery_command(journal.path))
    assert ("gpuperf", 0) == (program, main(arguments))
    assert [] == left_behind(report)


def test_where_no_file_can_be_locked_every_run_may_go_on(tmp_path, journal, monkeypatch):
    journal.close(keep=True)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    assert [] == left_behind(tmp_path / "report[1].json")


def test_what_else_there_is_was_not_left_behind(tmp_path, journal):
    journal.close(keep=True)
    content = journal.path.read_bytes()
    names = (
        "report[1].json.journal",
        "other.json.0123456789ab.journal",
        "report[1].json.0123456789ab.journal.txt",
        "report[1].json.more.0123456789ab.journal",
        "report1.json.0123456789ab.journal",
    )
    for name in names:
        (tmp_path / name).write_bytes(content)
    heading, _ = content.split(b"\n", 1)
    without = [b"", b"{}\n{}\n", document.text(run_of()).encode(), heading + b"\n", heading + b'\n{"nodeid":']
    for number, each in enumerate(without):
        (tmp_path / f"report[1].json.{number:012}.journal").write_bytes(each)
    (tmp_path / "report[1].json.bbbbbbbbbbbb.journal").mkdir()
    os.mkfifo(tmp_path / "report[1].json.cccccccccccc.journal")
    assert [journal.path] == left_behind(tmp_path / "report[1].json")
    assert [] == left_behind(tmp_path / "no folder" / "report[1].json")


# -- recovered -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "lines"),
    [
        ({"a": 0, "a#2": 1, "b": 0}, line("a") + line("a") + line("a", reruns=1) + line("b")),
        ({"a": 0}, line("a") + line("b")[:-1]),  # cut off
        ({"a": 0}, line("a") + '{"nodeid":"é'.encode()[:-1]),
        ({"one\u2028two": 0, "three": 0}, line("one\u2028two") + line("three")),
        ({"one\x85two": 0}, line("one\x85two")),
        ({}, b""),
    ],
)
def test_a_journal_has_each_record_whose_line_is_whole(tmp_path, expected, lines):
    assert expected == recovered(tmp_path / "journal", HEADING + lines)


# -- results of tests that ran more than once ------------------------------------------------------


def ids(results):
    return [(each.nodeid, each.status) for each in results.all()]


def test_a_rerun_replaces_the_result_of_its_own_worker():
    results = Results()
    failed, passed = record("test_it", status="failed", reason="slow"), record("test_it", status="passed")
    results.add(failed, "gw0")
    results.add(failed, "gw1")
    results.add(replace(passed, reruns=1), "gw0")
    assert [("test_it", "passed"), ("test_it#2", "failed")] == ids(results)
    results.add(replace(passed, reruns=1), "gw1")
    assert [("test_it", "passed"), ("test_it#2", "passed")] == ids(results)


def test_a_test_that_has_begun_again_keeps_its_earlier_result_until_it_has_another():
    results = Results()
    results.add(record("test_it", status="passed"))
    results.begin("test_it")
    assert "test_it" not in results.newest
    assert [("test_it", "passed")] == ids(results)
    results.newest["test_it"] = record("test_it", status="error", reason="broken")
    assert [("test_it", "passed"), ("test_it#2", "error")] == ids(results)
    assert 2 == results.count("test_it")


def test_the_second_results_of_variants_and_of_sizes_are_groups_of_their_own():
    size_group = SizeGroup(name="test_it", parameter="n", size=4, sizes=(4, 8))
    pairing = Pairing(kind="gpu", library="cupy", partner="test_it[cpu]")
    results = Results()
    for _ in range(2):
        results.add(record("test_it[cpu]", status="recorded"))
        results.add(replace(record("test_it[gpu]", status="passed"), size_group=size_group, pairing=pairing))
    results.add(replace(record("test_it[gpu]", status="passed"), size_group=size_group, pairing=pairing))
    on_gpu = [each for each in results.all() if each.pairing]
    assert ["test_it", "test_it#2", "test_it#3"] == [each.size_group.name for each in on_gpu]
    # The third has no CPU variant of its own.
    partners = [each.pairing.partner for each in on_gpu]
    assert ["test_it[cpu]", "test_it[cpu]#2", "test_it[cpu]"] == partners
    assert "the test ran 3 times in this session; this is result 2" in on_gpu[1].notes[-1].text
