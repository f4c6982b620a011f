"""The columns of the table of tests: what a new one takes, and what the page's styles have of each."""

import re
from pathlib import Path

import pytest
from factories import record, run_of

from pytest_gpuperf.model.measurement import Memory
from pytest_gpuperf.report import html, markdown
from pytest_gpuperf.report.html import page
from pytest_gpuperf.report.terminal import section
from pytest_gpuperf.report.words import columns
from pytest_gpuperf.report.words.columns import Column

STYLES = (Path(html.__file__).parent / "templates" / "page.css").read_text(encoding="utf-8")
ON_PAGE = {column.key: column for column in columns.COLUMNS if column.on_page}
RUN = run_of(record("tests/test_a.py::test_it", memory=Memory(peak=4000)), record("tests/test_a.py::test_no"))


@pytest.fixture
def memory(monkeypatch):
    """A new column, which is nowhere but in `COLUMNS`."""
    column = Column(
        heading="memory",
        cell=lambda record: f"{record.memory.peak} B" if record.memory else "-",
        short_cell=lambda record: "much" if record.memory else "-",
        left_out=0,
        on_page="right",
    )
    monkeypatch.setattr(columns, "COLUMNS", (*columns.COLUMNS[:-1], column, columns.COLUMNS[-1]))


def test_a_new_column_is_in_a_terminal_as_long_as_there_is_room(memory):
    def table(width, *, all_notes=False):
        lines = map(str, section.lines(RUN, width, all_notes=all_notes))
        return [" ".join(line.split()) for line in lines][2:]

    heading, *rows = table(120)
    assert "test CPU GPU speedup limit memory verdict" == heading
    assert ["much", "-"] == [row.split()[-2] for row in rows[:2]]
    assert "test CPU GPU speedup limit verdict" == table(65)[0]
    assert "memory 4000 B" in table(65, all_notes=True)


def test_a_new_column_is_in_markdown(memory):
    heading, _, *rows = [line for line in markdown.text(RUN).splitlines() if line.startswith("|")]
    assert heading.endswith("| limit | memory | verdict |")
    assert ["4000 B", "-"] == [row.split(" | ")[-2] for row in rows]


def test_a_new_column_is_on_the_page(memory):
    shown = page.text(RUN)
    assert "<th scope=col class=memory data-key=memory>memory" in shown
    cells = re.findall("<td class=.?memory.*", shown)
    assert ["<td class=memory>4000 B", '<td class="memory none">-'] == cells


def test_a_column_of_dashes_is_left_out(memory):
    nothing = run_of(record())
    assert "memory" not in "".join(map(str, section.lines(nothing, 200)))
    assert "| memory" not in markdown.text(nothing)
    assert "class=memory" not in page.text(nothing)


@pytest.mark.parametrize("key", ON_PAGE)
def test_the_styles_of_the_page_have_the_width_of_each_column(key):
    assert f"\n#table .{key} {{ width: " in STYLES


@pytest.mark.parametrize("key", [key for key in ON_PAGE if key != "speedup"])
def test_a_narrow_page_says_what_a_cell_is_as_the_heading_does(key):
    said = re.findall(rf'\.test \.{key}::before {{ content: "(.*) " }}', STYLES)
    assert {each.heading for each in columns.COLUMNS if each.key == key} == set(said)
