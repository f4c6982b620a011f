"""Store: a report is replaced whole or not at all, and a journal keeps what was finished."""

import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pytest

from pytest_gpuperf.report.files import create, replace


def test_a_report_is_written_where_there_was_none(tmp_path):
    replace(tmp_path / "report.json", "new é\n")
    assert (tmp_path / "report.json").read_text(encoding="utf-8") == "new é\n"


def test_a_report_takes_the_place_of_an_older_one(tmp_path):
    path = tmp_path / "report.json"
    path.write_text("old and longer", encoding="utf-8")
    replace(path, "new")
    assert path.read_text(encoding="utf-8") == "new"
    assert list(tmp_path.iterdir()) == [path]


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


def test_each_process_writes_beside_the_report_under_a_name_of_its_own(tmp_path, monkeypatch):
    names = []
    moved = Path.replace

    def move(path, target):
        names.append(path.name)
        return moved(path, target)

    monkeypatch.setattr(Path, "replace", move)
    for process in (17, 18):
        monkeypatch.setattr(os, "getpid", lambda process=process: process)
        replace(tmp_path / "report.json", "new")
    assert len(set(names)) == 2


def test_a_report_in_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        replace(tmp_path / "nowhere" / "report.json", "new")


def test_of_two_writers_one_leaves_a_whole_report(tmp_path):
    path = tmp_path / "report.json"
    texts = [letter * 300_000 for letter in "abcdefgh"]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as writers:
        list(writers.map(partial(replace, path), texts))
    assert path.read_text(encoding="utf-8") in texts
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_is_made_where_links_are_refused_and_an_old_one_stays(tmp_path, monkeypatch):
    def refused(*places):
        raise PermissionError("no links here")

    monkeypatch.setattr("os.link", refused)
    create(tmp_path / "new.json", "text")
    with pytest.raises(FileExistsError):
        create(tmp_path / "new.json", "other")
    assert ["text"] == [path.read_text(encoding="utf-8") for path in tmp_path.iterdir()]
