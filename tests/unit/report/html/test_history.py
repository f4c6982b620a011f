"""Histories: a small figure for each test, with its changes and their commits, the worst first."""

import pytest
from cases import for_each
from factories import STEP, histories, history_of
from figures import is_whole, numbers, overlapping, paths, places, texts

from pytest_gpuperf.report.history import History, series
from pytest_gpuperf.report.html import history
from pytest_gpuperf.report.html.history import figure, figures

pytestmark = pytest.mark.unit


def series_of(values, **how):
    return series(history_of(*values, **how))[0]


def test_a_change_is_a_rule_between_its_runs_with_percent_and_commit():
    shown = figure(series_of([None, *STEP]))  # a run without a speedup has no place
    runs = [x for x, _ in places(paths(shown, "gpu")[0])]
    assert runs[5] < numbers(paths(shown, "limit")[0])[0] < runs[6]
    assert {"-18 % 0000008", "2026-01-02", "2026-01-13", "run date", "speedup, log scale"} <= set(
        texts(shown)
    )
    assert "from 9.90x to 8.10x (-18 %) at 0000008 of 2026-01-08" == shown.caption
    assert f"Speedup 8.00x [7.20, 8.80] in the last of 12 runs; {shown.caption}" == shown.finding
    assert "-18 % 2026-01-07" in texts(figure(series_of(STEP, commit=None)))


@for_each(
    ("values", "said"),
    [
        (STEP[:3], "3 runs with a speedup: changes are looked for in 10 or more"),
        ([2.0] * 12, "no change in 12 runs"),
        ([2.0] * 241, "no change in 241 runs; one run of 3 is drawn"),
    ],
)
def test_the_caption_says_why_there_is_no_change(values, said):
    assert said == figure(series_of(values)).caption


def test_the_path_of_a_long_history_is_small_and_has_its_first_and_last_run():
    shown = figure(series_of([20.0, *[10.0] * 400, 5.0]))
    first, second, *_, before, last = places(paths(shown, "gpu")[0])
    assert first[1] < second[1] == before[1] < last[1]
    assert sum(len(mark.path) for mark in shown.marks) < 6000


def test_the_largest_loss_is_first_then_gains_and_the_rest_is_counted(monkeypatch):
    monkeypatch.setattr(history, "MOST", 4)
    worse = [*STEP[:6], *(value / 2 for value in STEP[6:])]
    runs = {
        "same": [2.0] * 12,
        "gain": STEP[::-1],
        "more": worse[::-1],
        "loss": STEP,
        "large": worse,
        "untimed": [None] * 12,
    }
    found = figures(histories(*(history_of(*values, nodeid=name) for name, values in runs.items())))
    assert (["large", "loss", "more", "gain"], 1) == ([one.nodeid for one, _ in found.shown], found.hidden)


def test_runs_that_cannot_be_compared_say_what_differs_and_the_rest_is_said_once():
    machines = ("CPU one, python 3.13", "CPU two, python 3.13")
    here, there = (history_of(*[2.0] * 3, fingerprint=each) for each in machines)
    both = figures(histories(here, there))
    captions = [shown.caption for _, shown in both.shown]
    assert ["; CPU one", "; CPU two"] == [caption[caption.index(";") :] for caption in captions]
    alone = figures(here)
    assert ";" not in alone.shown[0][1].caption
    assert ("python 3.13", machines[0], "") == (both.of, alone.of, figures(History()).of)


@for_each("values", [[1e-12, 1e12], [1e12] * 2, [10.0 * 1.5 ** (number // 6) for number in range(60)]])
@for_each("share", [0.1, None])
def test_any_speedups_can_be_drawn(values, share):
    shown = figure(series_of(values, share=share))
    assert is_whole(shown)
    assert [] == overlapping(shown)
