"""A history in the terminal: each test's speedup over its runs, and where it changed, in words."""

from cases import for_each
from factories import STEP, entry, history_of, result
from msgspec.structs import replace

from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.report.history import Group, History, Interval, dump
from pytest_gpuperf.report.history import Tested as OneTest  # pytest collects what is called Test...
from pytest_gpuperf.report.text.history import lines


def test_a_history_in_full():
    skipped = entry(13, result(None))
    assert [
        "13 runs from 2026-01-01 to 2026-01-13, 1 test",
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
    ] == lines(replace(history_of(STEP), entries=(*history_of(STEP).entries, skipped)), last=3)


def test_a_slow_drift_is_told_with_what_it_comes_to():
    told = lines(history_of([10 * 0.98**day for day in range(31)]))
    assert 2 <= sum(line.startswith("  from ") for line in told)
    assert told[-1].startswith("  in all from 9.")


def test_a_change_at_a_run_of_no_known_commit_has_its_time():
    entries = tuple(replace(each, commit=None) for each in history_of(STEP).entries)
    assert "  from 9.90x to 8.10x (-18 %) at 2026-01-07 12:00" == lines(History(entries=entries))[-1]


def test_a_test_without_a_change_says_so():
    assert "  no change in 12 runs" == lines(history_of([5.0] * 12))[-1]


@for_each(("runs", "word"), [(1, "run"), (9, "runs")])
def test_a_test_with_few_runs_says_that_it_needs_more(runs, word):
    expected = f"  {runs} {word} with a speedup: changes are looked for in 10 or more"
    assert expected == lines(history_of([5.0] * runs))[-1]


def test_runs_that_cannot_be_compared_stand_apart():
    there = history_of([value * 2 for value in STEP[6:]], fingerprint="there").entries
    told = lines(History(entries=(*history_of(STEP[:6]).entries, *there)))
    assert ["== here", "== there"] == [line for line in told if line.startswith("==")]
    assert 2 == sum("changes are looked for" in line for line in told)


def test_a_failed_test_s_speedup_is_a_point_of_its_series():
    told = lines(history_of([5.0], status="failed"))
    assert "  2026-01-01  0000001   5.00x [4.50, 5.50]  failed" in told


def test_an_open_interval_has_a_question_mark():
    test = OneTest(nodeid="t", status="passed", speedup=Interval(value=5.0, low=None, high=6.0))
    open_end = Group(fingerprint="f", tests=(test,))
    assert "  2026-01-01  0000001   5.00x [?, 6.00]" in lines(History(entries=(entry(1, open_end),)))


def test_a_test_that_never_had_a_speedup_says_how_it_ended():
    told = lines(history_of([None, None, None]))
    assert "test_a  no speedup in 3 runs: 3 skipped" == told[-1]


def test_only_the_tests_that_were_asked_for_are_told():
    both = History(entries=(entry(1, result(2.0, "test_fft"), result(3.0, "test_sort")),))
    told = "\n".join(lines(both, only="fft"))
    assert "test_fft" in told
    assert "test_sort" not in told
    assert ["test_fft"] == [each["nodeid"] for each in dump(both, only="fft")["series"]]


def test_a_name_that_no_test_has_is_told():
    expected = ["12 runs from 2026-01-01 to 2026-01-12, and no test in them whose name contains 'fft'"]
    assert expected == lines(history_of(STEP), only="fft")


def test_no_runs_say_how_to_make_one():
    assert ["no runs yet: run pytest with --gpuperf-history=DIR"] == lines(History())


def test_files_that_are_no_entries_are_told_even_without_runs():
    rejected = {"a.json": "it is a link"}
    assert ["", "1 file left out:", "  a.json: it is a link"] == lines(History(rejected=rejected))[1:]


def test_all_runs_are_told_if_asked_for():
    assert 12 == sum("x [" in line for line in lines(history_of(STEP), last=None))


def test_a_commit_that_files_differed_from_has_a_plus_and_none_is_unknown():
    changed = entry(1, result(2.0), commit=Commit(id="a" * 40, changed=True))
    unknown = entry(2, result(2.0), commit=None)
    told = lines(History(entries=(changed, unknown)))
    assert "  2026-01-01  aaaaaaa+  2.00x [1.80, 2.20]" in told
    assert "  2026-01-02  unknown   2.00x [1.80, 2.20]" in told


def test_the_date_is_that_of_utc():
    late = entry(1, result(2.0), started="2026-01-01T23:30:00-02:00")
    assert "1 run from 2026-01-02 to 2026-01-02, 1 test" == lines(History(entries=(late,)))[0]


def test_all_marks_can_be_of_ascii():
    assert all(line.isascii() for line in lines(history_of(STEP), unicode=False))


def test_a_long_series_has_a_short_sparkline_and_noise_a_flat_one():
    told = lines(history_of([5.0, 5.01] * 14))
    assert "  " + "▄" * 28 + "  ▁ 4.77x  ▇ 5.25x" in told
    many = History(entries=tuple(entry(day % 28 + 1, result(5.0 + (day >= 150))) for day in range(300)))
    assert "  " + "▁" * 28 + "│" + "▇" * 27 + "  ▁ 5.00x  ▇ 6.00x" in lines(many)
    assert "  " + "▁" * 88 + "│" + "▇" * 87 + "  ▁ 5.00x  ▇ 6.00x" in lines(many, width=200)


@for_each("width", [60, 80, 200])
def test_a_history_fits_its_width_and_names_tests_in_full(width):
    name, other = "test_" + "long_name_" * 30 + "end", "test_" + "untimed_" * 30
    level = [10.0 if run // 8 % 2 else 5.0 for run in range(400)]  # with as many changes as there can be
    runs = [entry(day % 28 + 1, result(value, name), result(None, other)) for day, value in enumerate(level)]
    there = History(entries=tuple(runs), rejected={"a" * 300: "not " * 100})
    told = lines(there, width=width, unicode=False)
    assert [line for line in told if len(line) > width] == []
    assert "".join(line.strip() for line in told).count(name) == 1
    assert other in "".join(line.strip() for line in told)


@for_each("hostile", ["\x1b[2J", "a\nb", "\r", "\u202e", "\ud800", "\x9b"])
def test_nothing_in_a_file_steers_the_terminal(hostile):
    strange = entry(1, result(2.0, hostile, fingerprint=hostile), commit=Commit(id=hostile))
    told = lines(History(entries=(strange,), rejected={hostile: hostile}))
    assert all(letter.isprintable() for line in told for letter in line)
