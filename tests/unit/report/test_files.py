"""Store: a report is replaced whole or not at all, and a journal keeps what was finished."""

import os
from pathlib import Path

import pytest

from pytest_gpuperf.report.files import create, replace


def test_a_report_is_written_and_takes_the_place_of_an_older_one(tmp_path):
    path = tmp_path / "new" / "folder" / "report.json"
    for text in ("new é\n, and longer", "newer"):
        replace(path, text)
        assert path.read_text(encoding="utf-8") == text
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_report_and_nothing_else(tmp_path, monkeypatch, step):
    path = tmp_path / "report.json"
    path.write_text("old", encoding="utf-8")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*{"fsync": (os, "fsync"), "replace": (Path, "replace")}[step], full)
    with pytest.raises(OSError, match="No space left"):
        replace(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_text_is_on_the_disk_before_it_takes_the_place(tmp_path, monkeypatch):
    steps = []
    flushed, moved = os.fsync, Path.replace

    def fsync(file):
        steps.append(os.fstat(file).st_size)
        flushed(file)

    def move(path, target):
        steps.append("replace")
        return moved(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", move)
    replace(tmp_path / "report.json", "12345")
    assert steps == [5, "replace"]


@pytest.mark.parametrize("write", [replace, create])
def test_a_file_that_was_planted_is_neither_followed_nor_removed(tmp_path, monkeypatch, write):
    """Even where the random part of its name were known, which is as long as it can be."""
    asked = []
    monkeypatch.setattr(os, "urandom", lambda size: asked.append(size) or bytes(size))
    victim, planted = tmp_path / "victim", tmp_path / f".gpuperf-{'00' * 8}.tmp"
    victim.write_text("precious", encoding="utf-8")
    planted.symlink_to(victim)
    with pytest.raises(FileExistsError):
        write(tmp_path / "report.json", "new")
    assert asked == [8]
    assert victim.read_text(encoding="utf-8") == "precious"
    assert planted.is_symlink()


def test_an_output_that_is_a_link_is_written_where_it_leads(tmp_path):
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "report.json", tmp_path / "link.json"
    real.write_text("old", encoding="utf-8")
    link.symlink_to("between.json")
    (tmp_path / "between.json").symlink_to("real/report.json")
    replace(link, "new")
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8") == "new"
    assert list(real.parent.iterdir()) == [real]


@pytest.mark.parametrize("leads_to", ["itself", "nothing"])
def test_an_output_that_is_a_link_to_no_file_is_an_error(tmp_path, leads_to):
    link = tmp_path / "itself"
    link.symlink_to(tmp_path / leads_to)
    with pytest.raises(OSError, match="it is a link that leads to no file"):
        replace(link, "new")
    assert list(tmp_path.iterdir()) == [link]


@pytest.mark.skipif(os.name != "posix", reason="files have no such modes")
@pytest.mark.parametrize("mode", [0o600, 0o664, 0o444])
def test_a_file_keeps_its_mode_and_a_new_one_gets_that_of_any_other(tmp_path, mode):
    old, new, other = tmp_path / "old", tmp_path / "new", tmp_path / "other"
    old.touch()
    old.chmod(mode)
    other.touch()
    replace(old, "text")
    replace(new, "text")
    assert [mode, other.stat().st_mode] == [old.stat().st_mode & 0o777, new.stat().st_mode]


def test_a_new_file_is_made_where_links_are_refused_and_an_old_one_stays(tmp_path, monkeypatch):
    def refused(*places):
        raise PermissionError("no links here")

    monkeypatch.setattr("os.link", refused)
    create(tmp_path / "new.json", "text")
    with pytest.raises(FileExistsError):
        create(tmp_path / "new.json", "other")
    assert ["text"] == [path.read_text(encoding="utf-8") for path in tmp_path.iterdir()]
