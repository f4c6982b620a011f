"""Series: each test's results over its runs, where its speedup changed, and both as JSON."""

import json

import pytest
from factories import STEP, entry, history_of, result
from msgspec.structs import replace

from pytest_gpuperf.report.history import dump, series


def test_a_change_is_at_the_run_that_has_it_where_others_have_no_speedup():
    found = series(history_of([None, *STEP]).entries)[0]
    assert [("2026-01-08", -18)] == [
        (found.timed[change.index].entry.started[:10], round(change.percent)) for change in found.changes
    ]


def test_series_of_different_fingerprints_are_never_mixed():
    mixed = [
        entry(day, result(value, fingerprint="ab"[day % 2]))
        for day, value in enumerate([10.0 if day % 2 else 5.0 for day in range(1, 25)], 1)
    ]
    found = series(mixed)
    assert [{10.0}, {5.0}] == [{finding.result.speedup.value for finding in each.timed} for each in found]
    assert [(), ()] == [each.changes for each in found]


def test_the_object_of_json_has_series_and_changes():
    found = dump(replace(history_of(STEP), rejected={"a": "b"}))
    assert found == json.loads(json.dumps(found, allow_nan=False))
    assert (12, 10, [{"name": "a", "reason": "b"}]) == (found["runs"], found["fewest"], found["rejected"])
    (one,) = found["series"]
    assert ("here", "test_a", 12) == (one["fingerprint"], one["nodeid"], len(one["findings"]))
    assert {
        "started": "2026-01-01T12:00:00+00:00",
        "commit": {"id": "0000001" + 33 * "f", "branch": "main", "time": None, "changed": None},
        "status": "passed",
        "speedup": {"value": 9.9, "low": 9.9 * 0.9, "high": 9.9 * 1.1},
        "cpu": 0.1,
        "gpu": None,
    } == one["findings"][0]
    (change,) = one["changes"]
    assert (6, "2026-01-07T12:00:00+00:00") == (change["index"], change["started"])
    assert pytest.approx((9.9, 8.1, -18.2), abs=0.1) == (change["before"], change["after"], change["percent"])
    assert 0 < change["p"] <= 0.01
