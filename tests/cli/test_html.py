"""gpuperf show --html."""

from pathlib import Path

import pytest
from command import record, written


def test_a_report_becomes_a_page(call):
    written("r.json", record("test_a.py::test_fft[4096]"))
    assert [(0, ["page.html: 1 record as html"], "")] * 2 == [
        call("show", "r.json", "--html", "page.html") for _ in range(2)
    ]
    content = Path("page.html").read_text()
    assert content.startswith("<!doctype html>")
    assert content.endswith("</html>\n")
    assert "[4096]" in content


def test_a_baseline_adds_what_changed(call):
    written("base.json", record(value=20))
    written("r.json", record(value=10))
    call("show", "r.json", "--html", "alone.html")
    call("show", "r.json", "--baseline", "base.json", "--html", "page.html")
    assert 1 == call("compare", "base.json", "r.json", "--html", "compared.html")[0]
    bodies = [
        Path(f"{name}.html").read_text().partition("<body>")[2].partition("<script>")[0]
        for name in ("alone", "page", "compared")
    ]
    assert [False, True, True] == ["regressed" in body for body in bodies]


def test_a_history_that_is_not_there_is_named(refused):
    written("r.json", record())
    said = refused("show", "r.json", "--history=speedup", "--html", "page.html")
    assert said == "speedup is no folder; runs with --gpuperf-history=speedup make one"
    Path("speedup").mkdir()
    said = refused("show", "r.json", "--history=speedup")
    assert said == "--history is for the page: name it with --html PATH"


@pytest.mark.parametrize("broken", ["", "{", '{"schema_version": "9.0", "started": "x"}', "\x00\x01"])
def test_a_broken_report_leaves_no_half_page(refused, broken):
    Path("r.json").write_text(broken)
    assert refused("show", "r.json", "--html", "page.html").startswith("r.json")
