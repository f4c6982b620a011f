"""The benchmark for a first GPU: a part that fails says why, and a run that is cut off goes on."""

import json
import os
import subprocess
import sys
import tomllib
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from time import sleep

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.py"
PARTS = """
import fcntl, os, subprocess, sys, time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

spec = spec_from_file_location("real_parts", {real!r})
real = module_from_spec(spec)
sys.modules["real_parts"] = real
spec.loader.exec_module(real)
Finding, Subject = real.Finding, real.Subject
begun = Path(__file__).with_name("begun")

def Part(name, then=lambda: None, expected=0, seconds=60):
    def look(subject):
        is_again = begun.exists() and name in begun.read_text().split()
        names = begun.open("a")  # and held until this process ends
        fcntl.flock(names, fcntl.LOCK_EX)
        names.write(name + " ")
        names.flush()
        for figure in range(3):
            yield Finding(what=f"finding {{figure}}", figure=figure)
        if not is_again:
            then()
    return real.Part(name=name, look=look, expected=expected, seconds=seconds, libraries=("cupy",))

def hang():
    print("so far", flush=True)
    subprocess.run([sys.executable, "-c", "import time; time.sleep(60)"])

def die(how):
    os.kill(os.getpid(), how)

PARTS = ({parts})
"""
START = '{"part"'  # of each line


@pytest.fixture
def measured(tmp_path):
    """Run the script, short, with these options; return its exit code, and the lines of its file."""

    def call(*options):
        command = [sys.executable, SCRIPT, "--short", "--output", tmp_path, *options]
        code = subprocess.run(command, check=False).returncode
        lines = (tmp_path / "gpu.jsonl").read_text().splitlines()
        return code, [json.loads(line) for line in lines if line]

    return call


def test_a_part_that_fails_says_why(measured):
    code, (ended,) = measured("--gpus", "cupy:99", "--parts", "answers")
    assert (code, ended["what"], "Unavailable" in ended["cause"]) == (1, "ended", True)


def test_the_wheels_for_a_machine_without_an_index_are_all_that_the_package_and_its_tests_need():
    project = tomllib.loads(SCRIPT.parents[1].joinpath("pyproject.toml").read_text())["project"]
    tests = {"hypothesis", "pytest-xdist"}  # tests/conftest.py imports the one, the part `workers` the other
    needed = [line for line in project["dependencies"] if not line.startswith("numpy")]
    needed += [line for line in project["optional-dependencies"]["test"] if line.partition(">")[0] in tests]
    assert set() == {*needed} - {*SCRIPT.with_name("gpu-wheels.txt").read_text().splitlines()}


@pytest.mark.libraries
@pytest.mark.skipif(find_spec("jax") is None, reason="JAX is not installed; CI's second environment has it")
def test_every_part_that_needs_no_gpu_runs_on_the_cpu_of_jax(measured):
    parts = ("machine", "detection", "times", "copies", "answers", "faults")
    code, found = measured("--gpus", "jax:cpu", "--parts", *parts)
    assert code == 0
    assert {line["part"] for line in found if "figure" in line} == set(parts)
    assert not [line for line in found if "cause" in line]


@pytest.fixture
def script(tmp_path):
    """Start the script with other parts, on one GPU that nobody opens; its folder has what has begun."""

    def call(parts):
        folder = tmp_path / "script"
        folder.mkdir()
        (folder / "gpu.py").write_text(SCRIPT.read_text())
        (folder / "gpu_parts.py").write_text(
            PARTS.format(real=str(SCRIPT.with_name("gpu_parts.py")), parts=parts)
        )
        path = os.pathsep.join([str(SCRIPT.parent), *filter(None, [os.environ.get("PYTHONPATH")])])

        def start(output, *options):
            return subprocess.Popen(
                [sys.executable, folder / "gpu.py", "--gpus", "cupy", "--output", output, *options],
                env={**os.environ, "PYTHONPATH": path},
                stdout=subprocess.PIPE,
                text=True,
            )

        return folder / "begun", start

    return call


def text_of(file):
    return file.read_text() if file.exists() else ""


def wait_until_free(file):
    """Wait until no part holds the file any more: it ends with the run."""
    with file.open() as held:
        for _ in range(1000):
            with suppress(BlockingIOError):
                return flock(held, LOCK_EX | LOCK_NB)
            sleep(0.01)
    raise AssertionError("a part goes on without its run")


def written(output):
    """Return the lines of a run that are whole."""
    found = []
    for line in text_of(output / "gpu.jsonl").splitlines():
        with suppress(ValueError):
            found.append(json.loads(line))
    return found


def ended(output):
    return [line["part"] for line in written(output) if line["what"] == "ended"]


def test_a_run_that_is_cut_off_anywhere_loses_nothing_and_runs_no_part_twice(script, tmp_path):
    begun, start = script("Part('a', lambda: time.sleep(60)), Part('b'), Part('c')")
    file, done = tmp_path / "out" / "gpu.jsonl", []
    for more in count(1):  # lines that the run leaves
        before, already = text_of(file).count(START), begun.read_text().split() if begun.exists() else []
        process = start(file.parent)
        while process.poll() is None and text_of(file).count(START) < before + more:
            sleep(0.005)
        if process.poll() is not None:
            break
        process.kill()
        process.communicate()
        wait_until_free(begun)
        assert not {*done} & {*begun.read_text().split()[len(already) :]}
        left = START.join(text_of(file).split(START)[: 1 + before + more])
        file.write_text(left[:-7] if more % 2 else left)  # it was stopped in the middle of a line
        done = ended(file.parent)
    printed = process.communicate()[0]
    assert 0 == process.returncode
    assert ["a", "b", "c"] == ended(file.parent), "each once"
    assert [1] * 9 == [
        printed.count(f"{part}, cupy: finding {figure}") for part in "abc" for figure in range(3)
    ]


def test_a_part_whose_time_was_up_runs_again_after_the_others_in_a_folder_that_was_emptied(script, tmp_path):
    begun, start = script("Part('slow', hang, seconds=3), Part('long', expected=100), Part('short')")
    first, second = tmp_path / "first", tmp_path / "second"
    printed = start(first, "--seconds", "50").communicate()[0]
    assert ["slow", "short"] == begun.read_text().split()
    assert "slow of cupy has not ended" in printed
    assert "long of cupy has not ended" in printed
    assert ["short"] == ended(first)
    assert {"slow"} == {
        line["part"] for line in written(first) if line["what"] in ("finding 2", "cut off")
    } - {"short"}
    log = (first / "gpu.log").read_text()
    assert "so far" in log
    assert "in hang" in log, "where it was"
    process = start(second, "--seconds", "200", "--earlier", first)
    process.communicate()
    assert 0 == process.returncode
    assert ["slow", "short", "long", "slow"] == begun.read_text().split()
    assert ["short", "long", "slow"] == ended(second)
    assert (second / "gpu.log").read_text().startswith(log)


def test_a_crash_ends_a_part_and_a_process_that_was_stopped_from_outside_does_not(script, tmp_path):
    _, start = script("Part('crash', lambda: die(6)), Part('stopped', lambda: die(9)), Part('after')")
    start(tmp_path / "out", "--short").communicate()
    how = {line["part"]: line["what"] for line in written(tmp_path / "out")}
    assert {"crash": "ended", "stopped": "cut off", "after": "ended"} == how
