"""The examples and every snippet of the README run."""

import ast
import json
import re
import shlex
from pathlib import Path

import pytest

from pytest_gpuperf.cli import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = [
    source.replace("(512, 512)", "(64, 64)")  # the times that count here are simulated
    for source in re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
]
EXAMPLES = sorted((ROOT / "examples").glob("test_*.py"))
each_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
HEADINGS = ["claim", "file", "without a GPU", "`sycl:cpu`, emulated", "on a GPU"]
SHELL = [
    line for block in re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL) for line in block.splitlines()
]


def gallery():
    """Return the rows of the table in the gallery's own README."""
    text = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    heading, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert HEADINGS == heading
    return rows


def docstring(example):
    return ast.get_docstring(ast.parse(example.read_text(encoding="utf-8")))


def smaller(source):
    """Return a file with sizes for a processor: those of the examples are for a GPU."""
    source = re.sub(r"\b1 << (\d+)", lambda size: f"1 << {int(size[1]) // 2}", source)
    return re.sub(r"\b(64|128|224|256|512|1024|2048|4096)\b", lambda size: str(int(size[0]) // 24), source)


@pytest.fixture
def ran(pytester):
    """Run files together; return the sets of those with a test that passed, that skipped, that failed."""

    def call(sources, *options):
        for name, source in sources.items():
            (pytester.path / name).write_text(source, encoding="utf-8")
        result = pytester.runpytest_inprocess("-p", "no:randomly", *options)
        return [
            {report.nodeid.partition("::")[0] for report in ended} for ended in result.reprec.listoutcomes()
        ]

    return call


@pytest.mark.parametrize(
    "options", [["--gpuperf-gpu=simulated"], ["--gpuperf-gpu=none", "--gpuperf-max-time=0.1"]]
)
def test_the_snippets_of_the_readme_run(ran, options):
    sources = {f"test_{number}.py": source for number, source in enumerate(PYTHON)}
    passed, skipped, failed = ran(sources, *options)
    assert not failed
    may_skip = {
        name for name in sources if "importorskip" in sources[name] or "--gpuperf-gpu=none" in options
    }
    assert skipped <= may_skip
    assert {name for name in sources if "def test_" in sources[name]} <= passed | skipped


def test_the_examples_run_on_both_devices(ran, pytester):
    sources = {path.name: smaller(path.read_text(encoding="utf-8").split('"""', 2)[2]) for path in EXAMPLES}
    passed, skipped, failed = ran(
        sources, "--gpuperf-gpu=simulated", "--gpuperf-report-only", "--gpuperf-json=report.json"
    )
    assert (sources.keys(), set(), set()) == (passed, skipped, failed)
    summary = json.loads((pytester.path / "report.json").read_text())["summary"]
    assert (0, 0) == (summary["error"], summary["skipped"])


@each_example
def test_an_example_says_its_claim_what_to_expect_and_where_that_is_from(example):
    claim, *paragraphs = docstring(example).strip().split("\n\n")
    assert re.fullmatch(r".+\.", claim)
    assert ["Expect", "Source:"] == [paragraph.split()[0] for paragraph in paragraphs]


@each_example
def test_an_example_uses_only_the_contract(example):
    text = example.read_text(encoding="utf-8")
    assert set(re.findall(r"^(?:import|from) (\w+)", text, flags=re.MULTILINE)) <= {"numpy", "pytest"}


def test_the_gallery_names_every_example_and_no_other_with_its_claim():
    claims = {path.name: docstring(path).partition("\n")[0].rstrip(".") for path in EXAMPLES}
    assert [[claim, f"[{name}]({name})"] for name, claim in claims.items()] == sorted(
        (row[:2] for row in gallery()), key=lambda row: row[1]
    )


def test_the_gallery_has_something_to_say_of_each_device():
    assert all(len(row) == len(HEADINGS) and all(row) for row in gallery())


def pytest_lines():
    return [line for line in SHELL if line.startswith("pytest ")]


def test_the_pytest_commands_of_the_readme_run_one_after_the_other(pytester):
    (pytester.path / "examples").mkdir()
    (pytester.path / "examples" / "test_matmul.py").write_text(PYTHON[0], encoding="utf-8")
    assert len(pytest_lines()) > 4
    for line in pytest_lines():
        result = pytester.runpytest_inprocess(
            *shlex.split(line)[1:], "--gpuperf-gpu=simulated", "-p", "no:randomly"
        )
        assert set(result.parseoutcomes()) == {"passed"}, line


def one_sided(report, side, other):
    """Return what a run with one device would have reported."""
    unknown = dict.fromkeys([other, "speedup", "parity", "offload", "reason"]) | {"status": "recorded"}
    pairing = {"side": side, "library": "numpy", "partner": None}
    records = [{**record, **unknown, "pairing": pairing} for record in report["records"]]
    return {**report, "records": records}


def test_the_gpuperf_commands_of_the_readme_run(run, monkeypatch, pytester):
    run(PYTHON[0], "--gpuperf-json=report.json", "--gpuperf-history=speedups")
    monkeypatch.chdir(pytester.path)
    heading = json.loads((pytester.path / "report.json").read_text())
    for side, other in (("cpu", "gpu"), ("gpu", "cpu")):
        (pytester.path / f"{side}.json").write_text(json.dumps(one_sided(heading, side, other)))
    lines = [shlex.split(line)[1:] for line in SHELL if line.startswith("gpuperf ")]
    names = ["baseline", "devices", "compare", "history", "validate", "merge", "recover"]
    assert names == [line[0] for line in lines]
    journal = [{name: heading[name] for name in ("started", "environment")}, *heading["records"]]
    (pytester.path / lines[-1][1]).write_text("".join(f"{json.dumps(each)}\n" for each in journal))
    assert [0] * len(lines) == [main(line) for line in lines]


def test_every_command_is_in_the_readme(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = re.findall(r"^    ([a-z]+) ", capsys.readouterr().out, flags=re.MULTILINE)
    assert len(shown) > 8
    assert [] == [name for name in shown if f"`gpuperf {name}" not in README and f"`{name}`" not in README]


BY_ENVIRONMENT = """
import os
import pytest
from pytest_gpuperf.devices.simulated import SimulatedBackend

BACKEND = SimulatedBackend(name="cupy")

def pytest_gpuperf_devices():
    return [BACKEND]

@pytest.fixture
def xp():
    return (BACKEND.cpu() if os.environ["BACKEND"] == "numpy" else BACKEND.gpu("")).xp
"""


def test_a_suite_that_takes_its_backend_from_the_environment_runs_as_the_readme_says(pytester, monkeypatch):
    pytester.makeconftest(BY_ENVIRONMENT)
    pytester.makepyfile(
        "import pytest\n@pytest.mark.speedup(min=3)\ndef test_it(xp):\n    return lambda: xp.ones(3)"
    )
    lines = [line for line in SHELL if line.startswith("BACKEND=")]
    assert len(lines) == 2
    for line in lines:
        variable, _, *options = shlex.split(line)
        monkeypatch.setenv(*variable.split("="))
        result = pytester.runpytest_inprocess(*options, "--gpuperf-gpu=cupy", "-p", "no:randomly")
        result.assert_outcomes(passed=1)
    merge = next(line for line in SHELL if line.startswith("gpuperf merge"))
    assert main(shlex.split(merge)[1:]) == 0
    merged = json.loads((pytester.path / "merged.json").read_text())
    assert [record["status"] for record in merged["records"]] == ["passed"]


def test_the_readme_names_every_option(run):
    shown = set(re.findall(r"--gpuperf-[a-z-]+", run("", "--help", gpu=None).stdout.str()))
    assert shown == set(re.findall(r"--gpuperf-[a-z-]+", README))
