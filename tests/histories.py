"""Made-up histories: what runs found of tests, one run a day."""

from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.report.history.folder import History
from pytest_gpuperf.report.json.history import Entry, Group, Interval
from pytest_gpuperf.report.json.history import Tested as OneTest  # pytest collects what is called Test...

STEP = [9.9, 9.95, 9.85, 9.9, 10.0, 9.8, 8.1, 8.15, 8.05, 8.1, 8.2, 8.0]


def result(value: float | None, nodeid: str = "test_a", fingerprint: str = "here", **changes) -> Group:
    speedup = value and Interval(value=value, low=value - 0.5, high=value + 0.5)
    known = {"status": "passed" if value else "skipped", "cpu": 0.1, "gpu": None}
    test = OneTest(nodeid=nodeid, speedup=speedup, **{**known, **changes})
    return Group(fingerprint=fingerprint, tests=(test,))


def entry(day: int, *results: Group, **changes) -> Entry:
    commit = Commit(id=f"{day:07x}" + 33 * "f", branch="main")
    known = {
        "history_version": "1.0",
        "started": f"2026-01-{day:02}T12:00:00+00:00",
        "commit": commit,
        "measured": results,
    }
    return Entry(**{**known, **changes})


def history_of(values, **changes) -> History:
    return History(entries=tuple(entry(day, result(value, **changes)) for day, value in enumerate(values, 1)))
