"""Suites of other projects, run with the plugin and without it: what becomes of each test must be the same.

    python suites.py FOLDER  # FOLDER/array_api_extra is that project's source, for its tests

Each suite runs without the plugin, with it and no option, with --gpuperf-off, and, where it has tests that
differ in their array library only, with --gpuperf-all; serially and with pytest-xdist. In the last of these
runs array-api-strict stands for a GPU.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

HERE = Path(__file__).parent
WITHOUT = ("-p", "no:gpuperf")
WITH = {"with no option": (), "with --gpuperf-off": ("--gpuperf-off",)}
ALL = ("-p", "stand_in", "--gpuperf-all", "--gpuperf-lock=turns.lock", "--gpuperf-json=report.json")
MODES = {"serial": (), "-n 2": ("-n", "2")}
VERDICTS = ("passed", "failed", "inconclusive")
AGAIN = 3  # runs without the plugin that show what a suite does by chance
LONGEST = 900  # seconds for one run


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """One suite: pytest's arguments, the folder they are for, and the environment it needs.

    `pairs` is how many of its GPU siblings must at least be measured with --gpuperf-all, serially; None where
    it has no siblings. `some` (for -k) are the tests of those runs: where all would take minutes.
    """

    name: str
    arguments: tuple[str, ...]
    folder: str = "."
    environment: dict[str, str] = field(default_factory=dict)
    pairs: int | None = None
    some: str = ""


SUITES = (
    Suite(
        name="scipy.cluster.tests.test_vq",
        arguments=("--pyargs", "scipy.cluster.tests.test_vq"),
        environment={"SCIPY_ARRAY_API": "1"},
        pairs=20,
    ),
    Suite(
        name="scipy.ndimage.tests.test_filters",
        arguments=("--pyargs", "scipy.ndimage.tests.test_filters"),
        environment={"SCIPY_ARRAY_API": "1"},
        pairs=300,
        some="not correlate and not axes",  # all of 1817 pairs take more than three minutes
    ),
    Suite(
        name="array-api-extra tests/main",
        arguments=("tests/main",),
        folder="array_api_extra",
        pairs=300,
        some="not searching and not helpers and not test_at",  # as above, of 1194 pairs
    ),
    Suite(name="opt_einsum", arguments=("--pyargs", "opt_einsum.tests")),
    Suite(
        name="einops",
        arguments=("--pyargs", "einops.tests"),
        environment={"EINOPS_TEST_BACKENDS": "numpy"},
    ),
)


def differences(before, after, *, again=()):
    """Return what became of tests in `after` and in no run without the plugin, in sentences.

    `again` are more runs without it: what a suite does by chance is no difference.
    """
    others = [before, *again]
    wrong = [] if after["outcomes"] else ["no test was run"]
    if sorted(before["collected"]) != sorted(after["collected"]):
        missing, new = (Counter(run["collected"]) for run in (before, after))
        wrong.append(f"not collected: {_few(missing - new)}; only with the plugin: {_few(new - missing)}")
    for nodeid in sorted({nodeid for run in (*others, after) for nodeid in run["outcomes"]}):
        known = [run["outcomes"].get(nodeid) for run in others]
        found = after["outcomes"].get(nodeid)
        if found not in known:
            wrong.append(f"{nodeid}: {_said(known[0])} without the plugin, {_said(found)} with it")
    for category in sorted({category for run in (*others, after) for category in run["warnings"]}):
        counts = [run["warnings"].get(category, 0) for run in others]
        found = after["warnings"].get(category, 0)
        if not min(counts) <= found <= max(counts):
            wrong.append(f"{found} warnings of {category} with the plugin, {counts[0]} without it")
    if after["exit"] not in {run["exit"] for run in others}:
        wrong.append(f"exit code {after['exit']} with the plugin, {before['exit']} without it")
    return wrong


def shortcomings(report, pairs):
    """Return what a report of --gpuperf-all lacks, in sentences; `pairs` GPU siblings must be measured."""
    records = report["records"]
    wrong = [] if records else ["the report has no record"]
    strangers = [record["nodeid"] for record in records if record["source"] != "all"]
    wrong += [f"records of another source: {_few(strangers)}"] if strangers else []
    judged = [record["nodeid"] for record in records if record["status"] in VERDICTS]
    wrong += [f"verdicts that nobody asked for: {_few(judged)}"] if judged else []
    measured = len(_measured(records))
    wrong += [f"{measured} pairs were measured, fewer than {pairs}"] if measured < pairs else []
    return wrong


def told(report):
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
    wrong = []
    for suite in SUITES:
        for mode, workers in MODES.items():
            try:
                found = _accepted(suite, workers, folder)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                found = [f"{error}"]
            wrong += [f"{suite.name}, {mode}: {sentence}" for sentence in found]
    return wrong


def _accepted(suite, workers, folder):
    """Run one suite in every way; return what is wrong."""
    before = _run(suite, (*WITHOUT, *workers), folder)
    passed = sum(found == ["passed"] for found in before["outcomes"].values())
    print(f"{suite.name} {' '.join(workers)}: {passed} of {len(before['outcomes'])} tests pass", flush=True)
    wrong = [] if passed else ["no test passes without the plugin"]
    for way, options in WITH.items():
        wrong += _changed(suite, way, options, workers, before, folder)
    if suite.pairs is None:
        return wrong
    some = ("-k", suite.some) if suite.some else ()
    before = _run(suite, (*WITHOUT, *workers, *some), folder) if some else before
    wrong += _changed(suite, "with --gpuperf-all", ALL, (*workers, *some), before, folder)
    return wrong + _reported(folder / suite.folder, 0 if workers else suite.pairs)


def _changed(suite, way, options, others, before, folder):
    """Run a suite with the plugin; return what it changes, but for what changes without it, too."""
    after = _run(suite, (*options, *others), folder)
    print(f"  {way}: {after['elapsed']:.0f} s, without the plugin {before['elapsed']:.0f} s", flush=True)
    found = differences(before, after)
    if found:
        again = [_run(suite, (*WITHOUT, *others), folder) for _ in range(AGAIN)]
        found = differences(before, after, again=again)
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
        cwd=folder / suite.folder,
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


def _reported(folder, pairs):
    """Print what the report says; return what is wrong with it."""
    path = folder / "report.json"
    command = [str(Path(sys.executable).with_name("gpuperf")), "validate", str(path)]
    valid = subprocess.run(command, capture_output=True, text=True, check=False)
    if valid.returncode:
        return [f"the report is not valid: {valid.stdout}{valid.stderr}"]
    report = json.loads(path.read_text(encoding="utf-8"))
    path.unlink()
    print(*(f"    {line}" for line in told(report)), sep="\n", flush=True)
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


def _said(found):
    return " and ".join(found) if found else "not run"


if __name__ == "__main__":
    problems = main(Path(sys.argv[1]))
    for problem in problems[:50]:
        print(f"WRONG {problem}")
    if problems:
        sys.exit(f"{len(problems)} differences in suites of other projects")
    print("the same outcomes with the plugin as without it")
