"""gpuperf baseline: exit codes, what is printed, and the files that are read and written.

What takes the place of what is in tests/unit/gate/test_update.py.
"""

from pathlib import Path

import pytest
from command import record, skipped, update, values, written
from factories import ELSEWHERE
from golden import assert_told

TEST, OTHER = "test_a.py::test_1", "test_a.py::test_2"


UPDATES = {  # the baseline, the report, the options, and what else the report's run was
    "none there yet": ([], [record(), record(OTHER)]),
    "the same report again": ([record(), record(OTHER)], [record(), record(OTHER)]),
    "new measurements of a run that ended early": (
        [record(), record(OTHER), record("test_a.py::test_3")],
        [record("test_a.py::new", 3.0), record(OTHER, 12.0)],
        "",
        {"complete": False},
    ),
    "a regression": ([record(), record(OTHER)], [record(value=8.0), record(OTHER, 12.0)]),
    "a regression that is accepted": ([record()], [record(value=8.0)], "--accept-regressions"),
    "measured elsewhere": ([record(), record(OTHER)], [record()], "", {"environment": ELSEWHERE}),
    "measured elsewhere, in its place": (
        [record(), record(OTHER)],
        [record()],
        "--prune",
        {"environment": ELSEWHERE},
    ),
}


def test_a_baseline_has_what_was_measured_and_refuses_what_got_worse_or_cannot_stand_beside_it(call):
    """Read the titles above, and what stands below each in the file."""
    said = []
    for title, (base, new, *rest) in UPDATES.items():
        options, changes = [*rest, *("", {})[len(rest) :]]
        Path("base.json").unlink(missing_ok=True)
        before = Path(written("base.json", *base)).read_bytes() if base else b""
        code, lines = update(call, "base.json", written("r.json", *new, **changes), *options.split())
        is_changed = before != Path("base.json").read_bytes()
        left = f"exit code {code}, {'changed' if is_changed else 'unchanged'}: {values('base.json')}"
        said.append((title, "\n".join([*lines, left, ""])))
    assert_told("baseline", said)


def test_a_small_change_is_a_small_diff(call):
    written("base.json", *(record(f"test_a.py::test_{letter}") for letter in "abc"))
    before = Path("base.json").read_text().splitlines()
    update(
        call, "base.json", written("r.json", record("test_a.py::new", 3.0), record("test_a.py::test_b", 12.0))
    )
    changed = [line for line in Path("base.json").read_text().splitlines() if line not in before]
    assert sum('"nodeid":' in line for line in changed) <= 3


def test_the_latest_report_wins_whatever_the_order_of_the_names(call):
    written("a.json", record(value=3.0), started="2026-01-01T12:00:00+00:00")
    written("b.json", record(value=5.0), started="2026-01-01T12:30:00+02:00")  # half past ten
    update(call, "base.json", "a.json", "b.json")
    update(call, "again.json", "b.json", "a.json")
    assert (3.0, 3.0) == (*values("base.json").values(), *values("again.json").values())


def test_a_folder_gets_a_file_of_its_own(call, refused):
    update(call, "folder/", written("r.json", record(), started="2026-01-01T00:00:00+00:00"))
    written("folder/else.json", record(), environment=ELSEWHERE, started="2026-06-01T00:00:00+00:00")
    before = {path: path.read_bytes() for path in Path("folder").iterdir()}
    written("r.json", record(value=12.0), record(OTHER), started="2026-02-01T01:00:00+01:00")
    newer = "folder/2026-02-01T000000.000Z.json"
    assert f"{newer}: 1 test updated, 1 new, 0 kept as before" == update(call, "folder", "r.json")[1][-1]
    assert {TEST: 12.0, OTHER: 10.0} == values(newer)
    assert Path("folder/2026-01-01T000000.000Z.json") in before
    assert before == {path: path.read_bytes() for path in before}
    said = f"{newer} already exists, of a run that began at"
    assert refused("baseline", "update", "folder", "r.json").startswith(said)


def test_a_baseline_that_is_a_link_is_updated_where_the_gate_reads_it(call, refused):
    Path("real").mkdir()
    written("real/base.json", record())
    Path("link.json").symlink_to("real/base.json")
    Path("lost.json").symlink_to("nothing.json")
    written("r.json", record(value=5.0))
    code, lines = update(call, "--accept-regressions", "link.json", "r.json")
    assert (0, "link.json: 1 test updated, 0 new, 0 kept as before") == (code, lines[-1])
    assert Path("link.json").is_symlink()
    assert values("real/base.json") == {TEST: 5.0}
    said = "lost.json: it is a link that leads to no file"
    assert said == refused("baseline", "update", "lost.json", "r.json")


OLDER = "old.json is of a run that began before that of the baseline {}; measure it again, or "
NO_TIME = "which is not a time with an offset"


@pytest.mark.parametrize(
    ("said", "base", "reports"),
    [
        (OLDER.format("base.json"), "base.json", "new.json old.json"),
        (OLDER.format("folder/base.json"), "folder", "new.json old.json"),
        ("the reports measured nothing that a later run", "base.json", "none.json"),
        ("the reports measured nothing that a later run", "made/", "none.json"),
        ("notes.json: it is not JSON", "notes.json", "new.json"),
        ("early.json is incomplete: its run ended early, and the baseline", "made.json", "early.json"),
        *((NO_TIME, "folder", f"{name}.json") for name in ("yesterday", "outside", "nul")),
        (NO_TIME, "made/", "outside.json"),
    ],
)
def test_what_cannot_be_updated_is_refused_and_nothing_is_made(refused, said, base, reports):
    Path("folder").mkdir(exist_ok=True)
    for name in ("base.json", "folder/base.json"):
        written(name, record())
    written("old.json", record(value=3.0), record(OTHER), started="2025-12-31T00:00:00+00:00")
    written("new.json", record(OTHER), started="2026-02-01T00:00:00+00:00")
    written("none.json", skipped())
    written("early.json", record(), complete=False)
    for name, started in {"yesterday": "yesterday", "outside": "../outside", "nul": "\0"}.items():
        written(f"{name}.json", record(), started=started)
    Path("notes.json").write_text("my notes")
    assert said in refused("baseline", "update", base, *reports.split())
    assert not Path("made").exists()
