"""Suites of other projects, run with the plugin and without it: what becomes of each test must be the same.

    python suites.py FOLDER  # FOLDER/array_api_extra is that project's source, for its tests

Each suite runs without the plugin, with it and no option, with --gpuperf-off, and, where it has tests that
differ in their array library only, with --gpuperf-all. All of them run serially, the quick ones with
pytest-xdist too. In the runs with --gpuperf-all array-api-strict stands for a GPU. Two suites run at a time.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter

HERE = Path(__file__).parent
WITHOUT = ("-p", "no:gpuperf")
WITH = {"with no option": (), "with --gpuperf-off": ("--gpuperf-off",)}
ALL = ("-p", "stand_in", "--gpuperf-all", "--gpuperf-lock=turns.lock", "--gpuperf-json=report.json")
MODES = {"serial": (), "-n 2": ("-n", "2")}
VERDICTS = ("passed", "failed", "inconclusive")
AGAIN = 2  # further runs of each kind where two differ: they show what a suite does by chance
AT_A_TIME = 2  # suites
LONGEST = 900  # seconds for one run


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """One suite: pytest's arguments, the folder it runs in, and the environment it needs.

    `pairs` is how many of its GPU variants must at least be measured with --gpuperf-all, serially; None where
    it has no variants. `some` (for -k) are the tests of those runs: where all would take minutes.
    `modes` leave out pytest-xdist where that takes minutes and shows what a smaller suite shows.
    """

    name: str
    arguments: tuple[str, ...]
    folder: str
    modes: tuple[str, ...] = tuple(MODES)
    environment: dict[str, str] = field(default_factory=dict)
    pairs: int | None = None
    some: str = ""


SUITES = (  # the longest first: two run at a time
    Suite(
        name="array-api-extra tests/main",
        arguments=("tests/main",),
        folder="array_api_extra",
        modes=("serial",),
        pairs=100,
        some="indexing or lazy or linalg or statistical or sorting",  # as above, of 1194 pairs
    ),
    Suite(
        name="scipy.ndimage.tests.test_filters",
        arguments=("--pyargs", "scipy.ndimage.tests.test_filters"),
        folder="filters",
        modes=("serial",),
        environment={"SCIPY_ARRAY_API": "1"},
        pairs=100,
        some="prewitt or sobel or laplace or gradient",  # all of 1817 pairs take more than three minutes
    ),
    Suite(
        name="opt_einsum",
        arguments=("--pyargs", "opt_einsum.tests"),
        folder="opt_einsum",
        modes=("serial",),
    ),
    Suite(
        name="scipy.cluster.tests.test_vq",
        arguments=("--pyargs", "scipy.cluster.tests.test_vq"),
        folder="vq",
        environment={"SCIPY_ARRAY_API": "1"},
        pairs=20,
    ),
    Suite(
        name="einops",
        arguments=("--pyargs", "einops.tests"),
        folder="einops",
        environment={"EINOPS_TEST_BACKENDS": "numpy"},
    ),
)


def differences(without, with_it):
    """Return how the runs with the plugin differ from those without it, in sentences.

    Both are lists of runs, at least one each. What a test became with the plugin must be among what it became
    without. Some suites warn by chance: their warnings differ where the ranges of their counts do not
    overlap.
    """
    wrong = [] if all(run["outcomes"] for run in with_it) else ["no test was run"]
    before = Counter(without[0]["collected"])
    for after in with_it:
        missing, new = before - Counter(after["collected"]), Counter(after["collected"]) - before
        if missing or new:
            wrong.append(f"not collected: {_few(missing)}; only with the plugin: {_few(new)}")
            break
    for nodeid in sorted({nodeid for run in (*without, *with_it) for nodeid in run["outcomes"]}):
        known = [run["outcomes"].get(nodeid) for run in without]
        strange = [run["outcomes"].get(nodeid) for run in with_it if run["outcomes"].get(nodeid) not in known]
        if strange:
            wrong.append(f"{nodeid}: {_text(known[0])} without the plugin, {_text(strange[0])} with it")
    for category in sorted({category for run in (*without, *with_it) for category in run["warnings"]}):
        known, found = ([run["warnings"].get(category, 0) for run in runs] for runs in (without, with_it))
        if min(found) > max(known) or max(found) < min(known):
            wrong.append(f"{found[0]} warnings of {category} with the plugin, {known[0]} without it")
    codes = {run["exit"] for run in with_it} - {run["exit"] for run in without}
    wrong += [f"exit code {code} with the plugin, {without[0]['exit']} without it" for code in sorted(codes)]
    return wrong


def shortcomings(report, pairs):
    """Return what a report of --gpuperf-all lacks, in sentences; `pairs` GPU variants must be measured."""
    records = report["records"]
    wrong = [] if records else ["the report has no record"]
    strangers = [record["nodeid"] for record in records if record["source"] != "all"]
    wrong += [f"records of another source: {_few(strangers)}"] if strangers else []
    judged = [record["nodeid"] for record in records if record["status"] in VERDICTS]
    wrong += [f"verdicts that nobody asked for: {_few(judged)}"] if judged else []
    measured = len(_measured(records))
    wrong += [f"{measured} pairs were measured, fewer than {pairs}"] if measured < pairs else []
    return wrong


def summary(report):
    """Return the counts of a report, and the commonest reasons in it."""
    records = report["records"]
    statuses = Counter(record["status"] for record in records)
    counts = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
    lines = [f"{len(records)} records: {counts}; {len(_measured(records))} pairs measured"]
    for reason, count in _reasons(records).most_common(5):
        lines.append(f"{count:6} {reason}")
    return lines


def main(folder):
    """Run every suite; return what is wrong, in sentences."""
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        ended = pool.map(partial(_all_ways, folder=folder), SUITES)
        return [sentence for wrong in ended for sentence in wrong]


def _all_ways(suite, folder):
    """Run one suite in each mode, and print what became of it; return what is wrong."""
    wrong = []
    (folder / suite.folder).mkdir(exist_ok=True)
    for mode in suite.modes:
        lines = []
        try:
            found = _accepted(suite, mode, folder / suite.folder, lines.append)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            found = [f"{error}"]
        print(*lines, sep="\n", flush=True)
        wrong += [f"{suite.name}, {mode}: {sentence}" for sentence in found]
    return wrong


def _accepted(suite, mode, folder, tell):
    """Run one suite in one mode in every way; return what is wrong."""
    workers = MODES[mode]
    tell(f"{suite.name}, {mode}")
    before = _run(suite, (*WITHOUT, *workers), folder)
    passed = sum(found == ["passed"] for found in before["outcomes"].values())
    tell(f"  {passed} of {len(before['outcomes'])} tests pass")
    wrong = [] if passed else ["no test passes without the plugin"]
    for way, options in WITH.items():
        wrong += _changed(suite, way, (options, workers), before, folder, tell)
    if suite.pairs is None:
        return wrong
    if suite.some:
        workers = (*workers, "-k", suite.some)
        before = _run(suite, (*WITHOUT, *workers), folder)
    wrong += _changed(suite, "with --gpuperf-all", (ALL, workers), before, folder, tell)
    return wrong + _reported(folder, suite.pairs if mode == "serial" else 0, tell)


def _changed(suite, way, options, before, folder, tell):
    """Run a suite with the plugin; return what differs from the runs without it, and not by chance."""
    plugin, others = options
    after = _run(suite, (*plugin, *others), folder)
    tell(f"  {way}: {after['elapsed']:.0f} s, without the plugin {before['elapsed']:.0f} s")
    found = differences([before], [after])
    if found:
        without = [_run(suite, (*WITHOUT, *others), folder) for _ in range(AGAIN)]
        with_it = [_run(suite, (*plugin, *others), folder) for _ in range(AGAIN)]
        found = differences([before, *without], [after, *with_it])
    return [f"{way}: {sentence}" for sentence in found]


def _run(suite, options, folder):
    """Run pytest once; return what the plugin `outcomes` wrote."""
    written = (folder / "outcomes.json").resolve()
    written.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "outcomes"]
    path = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, **suite.environment, "PYTHONPATH": path, "OUTCOMES": str(written)}
    started = perf_counter()
    ran = subprocess.run(
        [*command, *options, *suite.arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST,
    )
    if not written.exists() or ran.returncode not in (0, 1):
        end = (ran.stdout + ran.stderr)[-3000:]
        raise ValueError(f"pytest {' '.join(options)} ended with exit code {ran.returncode}:\n{end}")
    found = {**json.loads(written.read_text(encoding="utf-8")), "elapsed": perf_counter() - started}
    # Which of xdist's processes runs a test decides what it draws at random, and what it imports first:
    # the suites warn accordingly, another way in each run.
    return {**found, "warnings": {}} if "-n" in options else found


def _reported(folder, pairs, tell):
    """Tell what the report says; return what is wrong with it."""
    path = folder / "report.json"
    command = [str(Path(sys.executable).with_name("gpuperf")), "validate", str(path)]
    valid = subprocess.run(command, capture_output=True, text=True, check=False)
    if valid.returncode:
        return [f"the report is not valid: {valid.stdout}{valid.stderr}"]
    report = json.loads(path.read_text(encoding="utf-8"))
    path.unlink()
    for line in summary(report):
        tell(f"    {line}")
    return shortcomings(report, pairs)


def _measured(records):
    return [record for record in records if record["speedup"] is not None]


def _reasons(records):
    """Count reasons; what differs from test to test in them is left out."""
    said = (record["reason"] for record in records if record["reason"])
    return Counter(re.sub(r"\d[\d.]*", "N", re.sub(r"\S+::\S+", "TEST", reason))[:150] for reason in said)


def _few(names):
    listed = sorted(names)
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "") or "none"


def _text(found):
    return " and ".join(found) if found else "not run"


if __name__ == "__main__":
    problems = main(Path(sys.argv[1]))
    for problem in problems[:50]:
        print(f"WRONG {problem}")
    if problems:
        sys.exit(f"{len(problems)} differences in suites of other projects")
    print("the same outcomes with the plugin as without it")
