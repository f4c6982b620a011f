"""The examples and every snippet of the README run."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from pytest_gpuperf.command import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
SHELL = [
    line for block in re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL) for line in block.splitlines()
]


@pytest.mark.parametrize("gpu", ["simulated", "none"])
@pytest.mark.parametrize("source", PYTHON, ids=lambda source: re.findall(r"(?:def|class) (\w+)", source)[-1])
def test_a_snippet_of_the_readme_runs(run, source, gpu):
    outcomes = run(source, gpu=gpu).parseoutcomes()
    assert set(outcomes) <= ({"passed"} if gpu == "simulated" else {"passed", "skipped"})


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("test_*.py")), ids=lambda path: path.stem)
def test_an_example_runs_on_both_devices(pytester, example):
    shutil.copy(example, pytester.path)
    result = pytester.runpytest_inprocess(
        "-p", "no:randomly", "--gpuperf-gpu=simulated", "--gpuperf-report-only"
    )
    assert set(result.parseoutcomes()) == {"passed"}


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("test_*.py")), ids=lambda path: path.stem)
def test_an_example_says_what_to_expect_and_uses_only_the_contract(example):
    text = example.read_text(encoding="utf-8")
    assert "Expect" in text.split('"""')[1]
    assert set(re.findall(r"^(?:import|from) (\w+)", text, flags=re.MULTILINE)) <= {"numpy", "pytest"}


def pytest_lines():
    return [line for line in SHELL if line.startswith("pytest ")]


@pytest.mark.parametrize("line", pytest_lines())
def test_a_pytest_command_of_the_readme_runs(pytester, line):
    (pytester.path / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "test_matmul.py", pytester.path / "examples")
    result = pytester.runpytest_inprocess(
        *shlex.split(line)[1:], "--gpuperf-gpu=simulated", "-p", "no:randomly"
    )
    result.assert_outcomes(passed=1)


def test_the_gpuperf_commands_of_the_readme_run(run, tmp_path, monkeypatch, pytester):
    run(PYTHON[0], "--gpuperf-json=report.json")
    monkeypatch.chdir(pytester.path)
    lines = [shlex.split(line)[1:] for line in SHELL if line.startswith("gpuperf ")]
    assert [line[0] for line in lines] == ["validate", "recover"]
    assert main(lines[0]) == 0
    heading = json.loads((pytester.path / "report.json").read_text())
    (pytester.path / lines[1][1]).write_text(json.dumps(heading) + "\n")
    assert main(lines[1]) == 0


def test_the_readme_names_every_option(run):
    shown = set(re.findall(r"--gpuperf-[a-z-]+", run("", "--help", gpu=None).stdout.str()))
    assert shown == set(re.findall(r"--gpuperf-[a-z-]+", README))
