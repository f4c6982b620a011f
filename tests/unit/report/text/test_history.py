"""A history in the terminal: each test's speedup over its runs, and where it changed, in words."""

from cases import for_each
from factories import STEP, estimate, histories, history_of, point
from msgspec.structs import replace

from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.report.history import History
from pytest_gpuperf.report.text.history import lines


def test_a_history_in_full():
    shown = histories(
        history_of(*[None] * 13, nodeid="test_b"),
        history_of(*STEP, None),
        history_of(2.0, status="failed", nodeid="test_c", fingerprint="there"),
    )
    assert [
        "13 runs from 2026-01-01 to 2026-01-13, 3 tests",
        "",
        "== here",
        "",
        "test_a",
        "  ▇▇▇▇▇▇│▁▁▁▁▁▁  ▁ 8.00x  ▇ 10.0x",
        "  ... 10 earlier",
        "  2026-01-11  000000b   8.20x [7.38, 9.02]",
        "  2026-01-12  000000c   8.00x [7.20, 8.80]",
        "  2026-01-13  000000d   no speedup: skipped",
        "  from 9.90x to 8.10x (-18 %) at 0000007 of 2026-01-07",
        "",
        "test_b",
        "  no speedup in 13 runs: 13 skipped",
        "",
        "== there",
        "",
        "test_c",
        "  ▄  ▁ 1.91x  ▇ 2.10x",
        "  2026-01-01  0000001   2.00x [1.80, 2.20]  failed",
        "  1 run with a speedup: changes are looked for in 10 or more",
        "",
        "1 file left out:",
        "  a.json: it is a link",
    ] == lines(replace(shown, rejected={"a.json": "it is a link"}), last=3)


@for_each(
    ("history", "expected"),
    [
        (history_of(*STEP, commit=None), "  from 9.90x to 8.10x (-18 %) at 12:00 of 2026-01-07"),
        (history_of(*[5.0] * 12), "  no change in 12 runs"),
        (history_of(5.0, speedup=estimate(5.0, None, 6.0)), "  2026-01-01  0000001   5.00x [?, 6.00]"),
        (history_of(5.0, commit=None), "  2026-01-01  12:00     5.00x [4.50, 5.50]"),
        (
            history_of(5.0, commit=Commit(id="a" * 40, changed=True)),
            "  2026-01-01  aaaaaaa+  5.00x [4.50, 5.50]",
        ),
        (history_of(*[5.0, 5.01] * 14), "  " + "▄" * 28 + "  ▁ 4.77x  ▇ 5.25x"),
        (history_of(*[5.0] * 60, *[6.0] * 40), "  " + "▁" * 15 + "│" + "▇" * 40 + "  ▁ 5.00x  ▇ 6.00x"),
        (History(), "no runs yet: run pytest with --gpuperf-history=DIR"),
    ],
)
def test_a_history_has_the_line(history, expected):
    assert expected in lines(history)


def test_a_slow_drift_is_said_with_what_it_comes_to():
    said = lines(history_of(*(10 * 0.98**day for day in range(31))))
    assert 2 <= sum(line.startswith("  from ") for line in said)
    assert said[-1].startswith("  in all from 9.")


def test_only_the_tests_that_were_asked_for_are_shown():
    both = histories(history_of(2.0, nodeid="test_fft"), history_of(3.0, nodeid="test_sort"))
    assert ["test_fft"] == [line for line in lines(both, only="fft") if line.startswith("test_")]
    assert ["1 run from 2026-01-01 to 2026-01-01, and no test in them whose name contains 'x'"] == lines(
        both, only="x"
    )


@for_each("width", [60, 80, 200])
def test_a_history_fits_its_width_and_names_tests_in_full(width):
    name, other = "test_" + "long_name_" * 30 + "end", "test_" + "untimed_" * 30
    level = [10.0 if run // 8 % 2 else 5.0 for run in range(400)]  # with as many changes as there can be
    both = histories(history_of(*level, nodeid=name), history_of(None, nodeid=other))
    shown = lines(replace(both, rejected={"a" * 300: "not " * 100}), width=width)
    assert [line for line in shown if len(line) > width] == []
    assert "".join(line.strip() for line in shown).count(name) == 1
    assert other in "".join(line.strip() for line in shown)


@for_each("hostile", ["\x1b[2J", "a\nb", "\r", "\u202e", "\ud800", "\x9b"])
def test_nothing_in_a_file_steers_the_terminal(hostile):
    strange = {hostile: {hostile: [point(1, 2.0, commit=Commit(id=hostile))]}}
    shown = lines(replace(history_of(2.0), points=strange, rejected={hostile: hostile}))
    assert all(letter.isprintable() for line in shown for letter in line)
