"""Histories: a small figure for each test, with its changes and their commits, the worst first."""

from dataclasses import replace

import pytest
from factories import STEP, entry, history_of, result
from figures import is_whole, numbers, paths, places, texts

from pytest_gpuperf.report.history import History, Point, series
from pytest_gpuperf.report.html import history
from pytest_gpuperf.report.html.history import figure, figures

pytestmark = pytest.mark.unit


def told(runs):
    """Return a history of tests by name, each a list of speedups; None where a run has none."""
    days = enumerate(zip(*runs.values(), strict=True), 1)
    return History(entries=tuple(entry(day, *map(result, values, runs)) for day, values in days))


def series_of(values, **how):
    return series(history_of(values, **how).entries)[0]


def test_a_change_is_a_rule_between_its_runs_with_percent_and_commit():
    shown = figure(series_of(STEP))
    x = numbers(paths(shown, "limit")[0])[0]
    runs = [place[0] for place in places(paths(shown, "gpu")[0])]
    assert runs[5] < x < runs[6]
    assert "-18 % 0000007" in texts(shown)
    assert "9.90x to 8.10x (-18 % 0000007)" == shown.caption
    assert "Speedup 8.00x [7.20, 8.80] in the last of 12 runs; -18 % 0000007" == shown.finding


def test_without_a_commit_the_day_tells_the_change():
    unnamed = [replace(each, commit=None) for each in history_of(STEP).entries]
    assert "-18 % 2026-01-07" in texts(figure(series(unnamed)[0]))


def test_a_run_without_a_speedup_has_no_place():
    assert 12 == len(places(paths(figure(series_of([*STEP[:6], None, *STEP[6:]])), "gpu")[0]))


def test_an_open_interval_ends_at_the_edges():
    band = places(paths(figure(series_of(STEP, share=None)), "gpu", filled=True, faint=True)[0])
    assert 64 == pytest.approx(max(y for _, y in band) - min(y for _, y in band), abs=0.2)


def test_few_runs_are_told():
    shown = figure(series_of(STEP[:3]))
    assert "3 runs: changes are looked for in 10 or more" == shown.caption
    assert shown.finding.endswith("in the last of 3 runs; changes are looked for in 10 or more")
    assert figure(series_of(STEP[:1])) is None
    steady = figure(series_of([2.0] * 12))
    assert "no change in 12 runs" == steady.caption
    assert steady.finding.endswith("in the last of 12 runs; no change")


def test_the_path_of_a_long_history_is_small_and_reaches_both_ends():
    values = [10.0 + 0.1 * (number % 7) for number in range(10_000)]
    values[5000] = 30.0
    shown = figure(replace(series_of(values[:2]), points=series_points(values), changes=()))
    (line,) = paths(shown, "gpu")
    assert (40.0, 308.0) == (places(line)[0][0], places(line)[-1][0])
    assert sum(len(mark.path) for mark in shown.marks) < 4000
    (band,) = paths(shown, "gpu", filled=True, faint=True)
    assert min(y for _, y in places(band)) < min(y for _, y in places(line)) - 20


def test_the_ends_of_a_long_history_are_its_first_and_last_run():
    values = [20.0, *[10.0] * 400, 5.0]
    shown = figure(replace(series_of(values[:2]), points=series_points(values), changes=()))
    first, second, *_, before, last = (y for _, y in places(paths(shown, "gpu")[0]))
    assert first < second == before < last
    assert shown.finding.startswith("Speedup 5.00x")


def series_points(values):
    (one,) = history_of(values[:1]).entries
    return tuple(Point(entry=one, result=result(value, share=0.0).tests[0]) for value in values)


def test_the_largest_loss_is_first_then_gains_and_the_rest_is_counted(monkeypatch):
    monkeypatch.setattr(history, "MOST", 3)
    runs = {
        "same": [2.0] * 12,
        "gain": STEP[::-1],
        "loss": STEP,
        "large loss": [*STEP[:6], *(value / 2 for value in STEP[6:])],
        "untimed": [None] * 12,
    }
    found = figures(told(runs))
    assert ["large loss", "loss", "gain"] == [one.nodeid for one, _ in found.shown]
    assert 1 == found.hidden


def test_runs_that_cannot_be_compared_say_what_differs_and_the_rest_is_said_once():
    machines = ("CPU one, python 3.13", "CPU two, python 3.13")
    here, there = (history_of([2.0] * 3, fingerprint=each).entries for each in machines)
    both = figures(History(entries=(*here, *there)))
    captions = [shown.caption for _, shown in both.shown]
    assert ["; CPU one", "; CPU two"] == [caption[caption.index(";") :] for caption in captions]
    alone = figures(History(entries=here))
    assert ";" not in alone.shown[0][1].caption
    assert ("python 3.13", machines[0], "") == (both.of, alone.of, figures(History()).of)


def test_words_of_changes_do_not_overlap():
    values = [10.0 * 1.5 ** (number // 6) for number in range(60)]
    shown = figure(series_of(values))
    labels = [word for word in shown.words if "%" in word.text]
    assert 1 <= len(labels) < shown.finding.count("%")
    assert is_whole(shown)


def test_extreme_speedups_can_be_drawn():
    for values in ([1e-12, 1e12], [1e12, 1e12], [1e-12, 1e-12]):
        assert is_whole(figure(series_of(values)))
        assert is_whole(figure(series_of(values, share=None)))
