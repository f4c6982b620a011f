"""The report as a page: its bytes, the time to write it, and how soon a browser shows and filters it."""

import gc
import json
import os
import shutil
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from common import Target, conclude, table
from msgspec.structs import replace
from reports import made

from pytest_gpuperf.model.comparison import Comparison
from pytest_gpuperf.model.measurement import Estimate, Measurement
from pytest_gpuperf.model.offload import Diagnosis
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report.html import page

SMALL, MIDDLE, LARGE = 500, 5_000, 10_000
MOST_BYTES = 1_000_000
MOST_SECONDS = {"write": 0.1, "open and filter": 1.0}
BROWSERS = ("chromium", "google-chrome")
SOUGHT = "test_3.py"  # a hundred tests of each report are in this file
PAINTED = "() => new Promise(done => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))"
FILTER = """
([sought, expected]) => new Promise((done, fail) => {
    const shown = () => [...document.querySelectorAll("#table > .test")].filter(body => !body.hidden).length;
    const field = document.getElementById("filter");
    const start = performance.now();
    field.value = sought;
    field.dispatchEvent(new Event("input", {bubbles: true}));
    const look = () => {
        document.body.offsetHeight;
        if (shown() === expected) done(performance.now() - start);
        else if (performance.now() - start > 30_000) fail(new Error(`${shown()} tests are shown`));
        else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
})
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a page takes: bytes, and seconds to write it, to open it, and to filter it; 0 if not measured."""

    size: int
    write: float
    open: float = 0.0
    filter: float = 0.0


def main() -> int:
    arguments = read_arguments()
    if arguments.write:
        print(json.dumps(asdict(written(arguments.write, arguments.records))))
        return 0
    with TemporaryDirectory() as name:
        costs = measure(sorted(arguments.sizes), Path(name), arguments.repeats)
    rows = [
        [
            f"{size:,} tests",
            f"{cost.size / 1e6:.2f} MB",
            f"{1e3 * cost.write:.0f} ms",
            f"{cost.open:.2f} s",
            f"{cost.filter:.2f} s",
        ]
        for size, cost in costs.items()
    ]
    table(["", "size", "write", "open", "filter"], rows)
    return conclude(list(targets(costs)))


def read_arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[SMALL, MIDDLE, LARGE], help="tests")
    parser.add_argument("--repeats", type=int, default=5, help="of each figure, the median counts")
    parser.add_argument("--write", type=Path, help="be the process that writes this page")
    parser.add_argument("--records", type=int)
    return parser.parse_args()


def measure(sizes: Sequence[int], folder: Path, repeats: int) -> dict[int, Cost]:
    from playwright.sync_api import sync_playwright

    path = os.environ.get("GPUPERF_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        raise SystemExit(
            f"no browser: install {' or '.join(BROWSERS)}, or set GPUPERF_BROWSER to the path of one"
        )
    costs = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        for size in sizes:
            report = folder / f"{size}.html"
            writes = [apart(report, size) for _ in range(repeats)]
            shows = [shown(browser, report) for _ in range(repeats)]
            costs[size] = Cost(
                size=report.stat().st_size,
                write=median(cost.write for cost in writes),
                open=median(opening for opening, _ in shows),
                filter=median(filtering for _, filtering in shows),
            )
        browser.close()
    return costs


def targets(costs: dict[int, Cost]) -> Iterator[Target]:
    if small := costs.get(SMALL):
        yield Target(name=f"page of {SMALL} tests, bytes", figure=small.size, limit=MOST_BYTES)
        yield Target(
            name=f"write {SMALL} tests after import, seconds",
            figure=small.write,
            limit=MOST_SECONDS["write"],
        )
    if middle := costs.get(MIDDLE):
        yield Target(
            name=f"open and filter {MIDDLE:,} tests, seconds",
            figure=middle.open + middle.filter,
            limit=MOST_SECONDS["open and filter"],
        )


def apart(report: Path, records: int) -> Cost:
    """Write a page in a process of its own, as pytest does once."""
    command = [sys.executable, __file__, "--write", str(report), "--records", str(records)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the page of {records} tests failed:\n{done.stdout}{done.stderr}")
    return Cost(**json.loads(done.stdout))


def written(report: Path, records: int) -> Cost:
    """Write a page; the run that it is of was there before, Jinja2 imported, and the template compiled."""
    run = varied(made(records))
    page.template()
    gc.collect()  # what the run's making left to collect is no cost of its page
    start = perf_counter()
    report.write_text(page.text(run), encoding="utf-8")
    return Cost(size=report.stat().st_size, write=perf_counter() - start)


def shown(browser, report: Path) -> tuple[float, float]:
    """Return the seconds until a browser has painted a page, and until it shows a hundred tests alone."""
    context = browser.new_context()
    view = context.new_page()
    view.goto(report.as_uri(), wait_until="load")
    opened = view.evaluate(PAINTED)
    filtered = view.evaluate(FILTER, [SOUGHT, 100])
    context.close()
    return opened / 1e3, filtered / 1e3


def varied(run: Run) -> Run:
    """Return a run with 6 to 60 rounds a test, every verdict, and a baseline for every second test."""
    chance = Random(1)  # noqa: S311 - a simulation
    return replace(run, records=tuple(_varied(record, chance) for record in run.records))


def _varied(record: Record, chance: Random) -> Record:
    rounds = chance.choice((6, 6, 8, 12, 20, 35, 60))
    spread, gain = chance.uniform(0.01, 0.2), chance.lognormvariate(0, 1)
    whole, ends = record.speedup, sorted(chance.lognormvariate(0, spread) for _ in range(2))
    value = 10 * gain
    whole = replace(
        whole, value=value, low=value * min(1, ends[0]), high=value * max(1, ends[1]), rounds=rounds
    )
    baseline = Estimate(value=0.95 * value, low=0.9 * value, high=value)
    compared = Comparison(
        metric="speedup",
        tolerance=0.1,
        outcome="not_regressed",
        reason=None,
        baseline=baseline,
        found=whole.estimate,
        ratio=Estimate(value=1.05, low=0.95, high=1.1),
    )
    verdict = {"status": "passed", "reason": None}
    if whole.high < 3:
        verdict = {"status": "failed", "reason": f"speedup {value:.3g}x, required at least 3x"}
    elif whole.low < 3:
        verdict = {
            "status": "inconclusive",
            "reason": "the interval includes the limit of 3x: allow more time",
        }
    bound = Diagnosis(code="launch_bound", sentence="launching takes most of the time")
    return replace(
        record,
        **verdict,
        cpu=_sampled(record.cpu, 1e-2, rounds, spread, chance),
        gpu=_sampled(record.gpu, 1e-3 / gain, rounds, spread, chance),
        speedup=whole,
        diagnosis=(bound,) if verdict["reason"] else (),
        comparisons=(compared,) if chance.random() < 0.5 else (),
    )


def _sampled(found: Measurement, middle: float, rounds: int, spread: float, chance: Random) -> Measurement:
    samples = array("d", (middle * chance.lognormvariate(0, spread) for _ in range(rounds)))
    return replace(found, samples=samples, latencies=samples[:10])


if __name__ == "__main__":
    sys.exit(main())
