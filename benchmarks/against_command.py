"""How often `gpuperf against` is wrong: the command itself, on simulated devices, where head has a loss.

Each process adds a random offset to the exact times of each test. The name of a test says how much slower it
is in head, or that only every second call is slower. The command runs the suite in 12 or 24 processes.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from common import ALONE, Target, conclude, table

SUITE = """
import os
from random import Random

import pytest

import pace

OFFSET = 0.005  # the standard deviation of a process's own offset


@pytest.mark.parametrize("number", range({tests}))
@pytest.mark.parametrize("loss", ["none", "3%", "7%", "every_second_short", "every_second_long"])
@pytest.mark.speedup
def test_it(device, loss, number):
    chance = Random(f"{{os.getpid()}} {{device.kind}} {{loss}} {{number}}")
    seconds = (3e-4 if loss == "every_second_short" else 2e-2) * (1 + chance.gauss(0, OFFSET))
    calls = pace.calls(loss, chance.randrange(2))
    return lambda: device.launch(seconds * next(calls))
"""
BASE = """
from itertools import repeat


def calls(loss, first):
    return repeat(1.0)
"""
HEAD = """
from itertools import cycle

LOSSES = {"none": [1.0], "3%": [1.03], "7%": [1.07]}


def calls(loss, first):
    return cycle(LOSSES.get(loss) or [1.0, 1.2][:: 1 if first else -1])
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tests", type=int, default=500, help="tests of each kind; each has two times")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        found = outcomes(Path(folder), arguments.tests)
    kinds = ("none", "3%", "7%", "every_second_short", "every_second_long")
    columns = ("regressed", "not_regressed", "improved", "inconclusive")
    shares = {
        kind: {each: 100 * found[kind][each] / max(1, found[kind].total()) for each in columns}
        for kind in kinds
    }
    print(f"{arguments.tests} tests of each kind, two times each; percent of the times\n")
    table(("loss", *columns), [(kind, *(f"{shares[kind][each]:.1f}" for each in columns)) for kind in kinds])
    same = shares["none"]["not_regressed"] + shares["none"]["improved"]
    return conclude(
        [
            Target(name="no loss is called one, %", figure=shares["none"]["regressed"], limit=0.0),
            Target(name="no loss is found to be none, %", figure=same, limit=99.0, at_least=True),
            Target(name="3 % are called a loss of 5 %, %", figure=shares["3%"]["regressed"], limit=0.0),
            Target(
                name="7 % are called a loss, %", figure=shares["7%"]["regressed"], limit=98.0, at_least=True
            ),
            Target(
                name="20 % in every second call is proved absent, blocks of two calls and more, %",
                figure=shares["every_second_short"]["not_regressed"],
                limit=1.0,
            ),
        ]
    )


def outcomes(folder: Path, tests: int) -> dict[str, Counter[str]]:
    """Return how the times of each kind of test ended."""
    git(folder, "init", "--quiet")
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    (folder / "test_it.py").write_text(SUITE.format(tests=tests), encoding="utf-8")
    (folder / "pace.py").write_text(BASE, encoding="utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=base")
    (folder / "pace.py").write_text(HEAD, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest_gpuperf",
        "against",
        "HEAD",
        "--fail=nothing",
        "--json=found.json",
    ]
    command += ["--fail-on=gpu_time:5%", "--fail-on=cpu_time:5%"]
    command += ["--", "-ppytest_gpuperf.plugin", "--gpuperf-gpu=simulated"]
    subprocess.run(command, cwd=folder, env={**os.environ, **ALONE}, check=True, stdout=subprocess.DEVNULL)
    records = json.loads((folder / "found.json").read_text(encoding="utf-8"))["records"]
    found: dict[str, Counter[str]] = {}
    for record in records:
        loss = record["nodeid"].partition("[")[2].partition("-")[0]
        counted = found.setdefault(loss, Counter())
        counted.update(each["outcome"] for each in record["comparisons"])
    return found


def git(folder: Path, *words: str) -> None:
    """Run git in a folder, as someone."""
    someone: Sequence[str] = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run([str(which("git")), *someone, *words], cwd=folder, check=True)


if __name__ == "__main__":
    sys.exit(main())
