"""`gpuperf against`: which processes are started, when they end, and what becomes of what they measured."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from cases import for_each
from command import read, record, written
from factories import CPU, GPU, measured
from published import JUDGE
from repositories import git

from pytest_gpuperf.cli import against, main, one_process
from pytest_gpuperf.cli.one_process import Measured, NoReport
from pytest_gpuperf.cli.trees import Tree, Trees
from pytest_gpuperf.model.demand import Pairing
from pytest_gpuperf.report import reader

# An earlier test may have imported JAX, which warns of the fork that `preexec_fn` is.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
NOISY = (1.0, 1.2, 1.0, 1.2)  # in one pair head is slower, in the next base
SUITE = """
import pytest, toy

@pytest.mark.speedup
def test_one(device):
    return lambda: device.launch(toy.COST[device.kind])

def test_unmarked():
    assert False, "it is not run"
"""


@pytest.fixture
def toy(folder, monkeypatch):
    """Return a repository with one commit of a module and its suite."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others take a second in each process
    git(Path(), "init", "--quiet", "--initial-branch=main")
    Path("toy.py").write_text('COST = {"cpu": 50e-3, "gpu": 5e-3}\n')
    Path("pytest.ini").write_text("[pytest]\npythonpath = .\n")
    Path("test_toy.py").write_text(SUITE)
    git(Path(), "add", "--all")
    git(Path(), "commit", "--quiet", "--message=one")
    return folder


def test_a_loss_that_is_not_committed_yet_is_found_and_the_checkout_stays_as_it_is(toy, call):
    Path("toy.py").write_text('COST = {"cpu": 50e-3, "gpu": 5.5e-3}\n')
    before = git(Path(), "status", "--porcelain"), git(Path(), "worktree", "list")
    for_pytest = ("-p", "pytest_gpuperf.plugin", "--gpuperf-gpu=simulated")
    code, lines, said = call("against", "HEAD", "--json=it.json", "--pairs=6", "--", *for_pytest)
    Path("it.json").rename("../it.json")
    assert (1, before) == (code, (git(Path(), "status", "--porcelain"), git(Path(), "worktree", "list")))
    (test,) = read("../it.json")["records"]
    assert [("gpu_time", "regressed"), ("cpu_time", "not_regressed"), ("memory", "not_regressed")] == [
        (each["metric"], each["outcome"]) for each in test["comparisons"]
    ]
    assert "+10.0 % over 6 pairs of processes, 5 % more is allowed" in lines[-1]
    assert "with uncommitted changes (toy.py)" in said
    assert [f"pair {number} of 6" for number in range(1, 7)] == [
        line.removeprefix("gpuperf: ").partition(":")[0] for line in said.splitlines() if "pair" in line
    ]


def test_a_test_file_that_base_cannot_import_is_bases_own_there(toy, call):
    Path("fresh.py").write_text("NEW = 1\n")
    new = SUITE.replace("toy\n", "toy, fresh\n", 1).replace("test_unmarked", "test_new")
    Path("test_toy.py").write_text(new)
    Path("toy.py").write_text('COST = {"cpu": 50e-3, "gpu": 5.5e-3}\n')
    git(Path(), "add", "--all")
    git(Path(), "commit", "--quiet", "--message=two")
    Path("fresh.py").rename("fresh_2.py")  # head has it by another name
    Path("test_toy.py").write_text(new.replace("fresh\n", "fresh_2 as fresh\n", 1))
    for_pytest = ("-p", "pytest_gpuperf.plugin", "--gpuperf-gpu=simulated")
    code, lines, said = call("against", "HEAD^", "--pairs=6", "--", *for_pytest)
    why = "ModuleNotFoundError: No module named 'fresh_2'"
    assert f"gpuperf: base cannot import head's test_toy.py ({why}), and runs its own" in said
    assert (1, True) == (code, "+10.0 % over 6 pairs of processes" in lines[-1])


# What is started. A process is a function here, which writes a report


def a_tree(**changes):
    known = {"commit": 40 * "a", "described": "-", "root": changes["folder"], "environment": os.environ}
    return Tree(**known | {"checkout": Path("/not/here")} | changes)


@pytest.fixture
def started(folder, monkeypatch):
    """Let each process be a call; return those that were made: the side, and the words for pytest.

    `started.measure` returns the records of a process from its side and its number, counted from 1.
    """

    class Started(list):
        measure = staticmethod(lambda side, place: [timed(1.0)])
        errors, imported, limits = {"test_new.py": "ImportError: no toy"}, [os.__file__], []

    calls, folders = Started(), count()

    @contextmanager
    def two_trees(ref, start):
        sides = (
            a_tree(name=name, commit=10 * name, described=name, folder=folder) for name in ("base", "head")
        )
        calls.clear()
        kept = folder / f"kept-{next(folders)}"
        kept.mkdir()
        yield Trees(*sides, ("numpy differs",), kept)

    def measure(tree, report, arguments, limit):
        calls.append((tree.name, arguments))
        calls.limits.append(limit)
        records = calls.measure(tree.name, (len(calls) + 1) // 2)
        written(report, *records)
        return Measured(reader.named_report(report), calls.errors, calls.imported)

    monkeypatch.setattr(against, "two_trees", two_trees)
    monkeypatch.setattr(one_process, "measure", measure)
    return calls


def timed(seconds, nodeid="test_a.py::test_1", **changes):
    return record(nodeid, **{"cpu": measured(CPU, 1.0), "gpu": measured(GPU, seconds), **changes})


def test_what_six_pairs_decide_has_no_more_and_sides_take_turns(started, call):
    code, _, said = call("against", "main")
    assert (0, ["base", "head", "head", "base"] * 3) == (code, [side for side, _ in started])
    assert 3600.0 == started.limits[0], "the first one"
    assert all(60.0 < limit < 3600.0 for limit in started.limits[1:]), "ten times the longest, and a minute"
    assert "gpuperf: numpy differs" in said
    assert 1 == said.count("gpuperf: base cannot import test_new.py: ImportError: no toy")


def test_only_what_six_pairs_leave_open_has_six_more(started, call):
    noisy = iter(NOISY * 6)

    def measure(side, place):
        tests = [timed(1.0), timed(1.0, "test_a.py::test_10"), timed(1.0, "test_b.py::test")]
        return [
            timed(next(noisy), "test_a.py::test_10") if each.nodeid[-1] == "0" else each for each in tests
        ]

    started.measure = measure
    code, lines, _ = call("against", "main", "--json=it.json")
    assert (0, 24) == (code, len(started))
    # `--deselect=test_a.py::test_1` would leave out test_10, too.
    left_out = [[word for word in words if word.startswith("--deselect")] for _, words in started]
    assert [[]] * 12 + [["--deselect=test_b.py::test"]] * 12 == left_out
    of_noisy = next(each for each in read("it.json")["records"] if each["nodeid"] == "test_a.py::test_10")
    assert "over 12 pairs" in of_noisy["comparisons"][0]["reason"]
    assert "gpuperf against HEAD shows how small a change this machine can see" in " ".join(lines)
    started.clear()


def test_the_cpu_variant_of_what_six_pairs_leave_open_has_six_more_too(started, call):
    noisy = iter(NOISY * 6)
    cpu, gpu = "test_a.py::test[numpy]", "test_a.py::test[cupy]"

    def measure(side, place):
        pairings = (Pairing(kind="cpu", library="numpy"), Pairing(kind="gpu", library="cupy", partner=cpu))
        of_cpu = timed(1.0, cpu, gpu=None, speedup=None, status="recorded", pairing=pairings[0])
        return [of_cpu, timed(next(noisy), gpu, pairing=pairings[1]), timed(1.0, "test_b.py::test")]

    started.measure = measure
    call("against", "main")
    assert ["--deselect=test_b.py::test"] == [word for word in started[-1][1] if "deselect" in word]


def test_a_side_that_imports_the_users_own_files_is_refused(started, call, monkeypatch):
    started.imported = ["/not/here/toy.py", os.__file__]
    code, _, said = call("against", "main")
    assert (2, 1) == (code, len(started))
    assert "base imported /not/here/toy.py, which is the checkout's and not its own; install projects" in said


def test_what_base_alone_measures_fails_though_nothing_else_is_common(started, call):
    lost = timed(1.0, status="error", reason="KeyError")
    started.measure = lambda side, place: [timed(1.0) if side == "base" else lost]
    code, lines, _ = call("against", "main")
    assert (1, 2) == (code, len(started))
    assert "KeyError" in lines[-1]


def test_that_nothing_ran_says_how_to_run_something(started, call):
    started.measure = lambda side, place: []
    code, lines, _ = call("against", "main")
    assert 3 == code
    assert any("add --gpuperf-all there for unmarked ones" in line for line in lines)


def test_six_pairs_may_be_the_most(started, call):
    noisy = iter(NOISY * 6)
    started.measure = lambda side, place: [timed(next(noisy))]
    assert 0 == call("against", "main", "--pairs=6")[0]
    assert 12 == len(started)


def test_without_anything_in_common_the_first_pair_is_the_last(started, call):
    started.measure = lambda side, place: [timed(1.0)] if side == "head" else []
    code, _, _ = call("against", "main")
    assert (3, 2) == (code, len(started))


@for_each(
    ("code", "place", "said"),
    [
        (2, 3, "gpuperf: pytest in head (headhea) ended with exit code 3"),
        (1, 9, "FAILED: pytest in head (headhea) ended with exit code 3"),
    ],
)
@pytest.mark.parametrize("asked", [(), ("--fail=nothing",)])
def test_a_process_that_dies_ends_the_command_and_what_six_pairs_say_is_kept(
    started, call, asked, code, place, said
):
    noisy = iter(NOISY * 6)

    def measure(side, of_pair):
        if (side, of_pair) == ("head", place):
            raise NoReport("pytest in head (headhea) ended with exit code 3", ["Fatal Python error"])
        return [timed(next(noisy))]

    started.measure = measure
    found, lines, errors = call("against", "main", "--json=it.json", *asked)
    assert (code, code == 1) == (found, Path("it.json").exists())
    assert "gpuperf: | Fatal Python error" in errors.splitlines()
    assert said in (lines + errors.splitlines())
    Path("it.json").unlink(missing_ok=True)


@for_each(
    ("expected", "asked"),
    [
        (["-m", "speedup or offload_threshold or scaling"], []),
        (["-m", "speedup or offload_threshold or scaling", "tests", "-k", "fft"], ["tests", "-k", "fft"]),
        (["-m", "slow"], ["-m", "slow"]),
        (["-mslow", "{folder}/test_a.py::test_1"], ["-mslow", "/not/here/test_a.py::test_1"]),
        (["--ignore={folder}/b", "-k", "/here"], ["--ignore=/not/here/b", "-k", "/here"]),
        (["--gpuperf-all"], ["--gpuperf-all"]),
    ],
)
def test_what_follows_two_dashes_goes_to_pytest_which_runs_marked_tests_without_it(
    started, call, folder, expected, asked
):
    call(
        "against",
        "main",
        "--pairs=6",
        *(["--"] if asked else []),
        *(each.format(folder=folder) for each in asked),
    )
    words = started[0][1]
    expected = [each.format(folder=folder) for each in expected]
    if "-m" not in expected and "-mslow" not in expected and "--gpuperf-all" not in expected:
        expected = ["-m", "speedup or offload_threshold or scaling", *expected]
    assert expected == words[: len(expected)]
    assert ["--gpuperf-fail-on=gpu_time:0%", "--gpuperf-fail-on=cpu_time:0%"] == words[len(expected) :][:2]


# One process


@pytest.fixture
def tree(folder):
    """Return a tree of a suite, which a test writes."""
    environment = {**os.environ, "PYTEST_ADDOPTS": "", "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    return a_tree(name="head", folder=folder, environment=environment)


def measure(tree, suite, limit=60.0):
    (tree.folder / "test_it.py").write_text(suite)
    return one_process.measure(tree, tree.folder / "it.json", ["--gpuperf-gpu=simulated"], limit)


def test_a_process_leaves_a_report_whatever_its_tests_say(tree):
    suite = "import pytest\n@pytest.mark.speedup(min=3)\ndef test_it(device):\n    device.launch(1e-3)\n"
    (tree.folder / "test_other.py").write_text("import not_there")
    (tree.folder / "pytest.ini").write_text(
        "[pytest]\ngpuperf_markdown = github\ngpuperf_fail_on = speedup:1%\n"
    )
    found = measure(tree, suite)
    assert ["test_it.py::test_it"] == [each.nodeid for each in found.report.run.records]
    assert {"test_other.py": "ModuleNotFoundError: No module named 'not_there'"} == found.errors
    assert str(tree.folder / "test_it.py") in found.imported
    assert not Path("summary.md").exists()
    JUDGE.validate(json.loads((tree.folder / "it.json").read_text(encoding="utf-8")))


@for_each(
    ("ended", "suite"),
    [
        ("ended with exit code 4", "import pytest\nraise pytest.UsageError('wrong')"),
        ("ended with exit code 2", "import pytest\ndef test_it():\n    pytest.exit('enough')"),
        ("ended with exit code -9", "import os\ndef test_it():\n    os.kill(os.getpid(), 9)"),
        ("ended with exit code 7", "import os\ndef test_it():\n    os._exit(7)"),
    ],
)
def test_a_process_without_a_whole_report_tells_its_last_lines(tree, ended, suite):
    name = "conftest.py" if "Usage" in suite else "test_it.py"
    (tree.folder / "conftest.py").write_text("")
    (tree.folder / name).write_text(suite)
    with pytest.raises(NoReport, match=rf"^pytest in head \(aaaaaaa\) {ended}$") as found:
        measure(tree, "" if name == "conftest.py" else suite)
    assert found.value.lines


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    return not status.exists() or ") Z" not in status.read_text()


def is_gone(process: int) -> bool:
    """Wait until a process has ended."""
    for _ in range(1000):
        if not is_alive(process):
            return True
        time.sleep(0.01)
    return False


HANGS = """
import os, pathlib, subprocess, sys, time

def test_it():
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    pathlib.Path("hung").write_text(f"{os.getpid()} {other.pid}")
    time.sleep(600)
"""


def test_a_process_that_hangs_is_ended_with_what_it_has_started(tree):
    with pytest.raises(NoReport, match=r"^pytest in head \(aaaaaaa\) was still at work after 5 s$"):
        measure(tree, HANGS, limit=5.0)
    assert all(is_gone(int(each)) for each in Path("hung").read_text().split())


MEASURES = """
import os
from pathlib import Path
from pytest_gpuperf.cli import one_process
from pytest_gpuperf.cli.trees import Tree

here = Path.cwd()
tree = Tree(
    name="head", commit="a", described="-", checkout=here, root=here, folder=here, environment=os.environ
)
one_process.measure(tree, Path("it.json").absolute(), [], 60)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux kills a child with its parent")
def test_a_process_dies_with_the_command(tree):
    (tree.folder / "test_it.py").write_text(HANGS)
    parent = subprocess.Popen([sys.executable, "-c", MEASURES])
    hung = Path("hung")
    while not (hung.exists() and " " in hung.read_text()):
        assert parent.poll() is None
        time.sleep(0.01)
    child, other = map(int, hung.read_text().split())
    parent.kill()
    parent.wait()
    assert is_gone(child)
    os.kill(other, signal.SIGKILL)  # the system ends what pytest was, and not what a test has started


def test_ctrl_c_is_no_traceback(monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(against, "two_trees", interrupt)
    assert 130 == main(["against", "main"])
    assert "gpuperf: interrupted" == capsys.readouterr().err.splitlines()[-1]
