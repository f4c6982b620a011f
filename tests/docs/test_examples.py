"""The examples run, and the gallery names them."""

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from pytest_gpuperf.report import markdown
from pytest_gpuperf.report.reader import load_report

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("test_*.py"))
TRY_IT = ROOT / "examples" / "try_it" / "test_try_it.py"
IN_KERAS = (
    ROOT / "examples" / "keras_networks" / "test_networks_pay.py"
)  # tests/backends/test_keras.py runs it
each_example = pytest.mark.parametrize("example", [*EXAMPLES, IN_KERAS], ids=lambda path: path.stem)
_IS_OURS = re.compile("^-+ gpuperf -+$").match
HEADINGS = ["claim", "file", "without a GPU", "`sycl:cpu`, emulated"]


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


def test_the_command_that_repeats_a_test_does_so(ran, pytester, monkeypatch):
    """As it is printed, in a shell: the last size of a group reaches the threshold's verdict, too."""
    example = ROOT / "examples" / "test_larger_data_pays.py"
    source = smaller(example.read_text(encoding="utf-8"))
    ran({example.name: source}, "--gpuperf-gpu=simulated", "--gpuperf-json=report.json")
    run = load_report(pytester.path / "report.json")
    commands = markdown.text(run).partition("```sh\n")[2].partition("\n```")[0]
    (command,) = (
        line for line in commands.splitlines() if line.startswith(f"pytest {example.name}::test_density")
    )
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    printed = ["/bin/sh", "-c", f"{command} --gpuperf-json=again.json"]
    done = subprocess.run(printed, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    again = load_report(pytester.path / "again.json")
    assert f"pytest {example.name}::test_density --gpuperf-gpu=simulated" == command
    for one in (run, again):
        statuses = {record.nodeid: record.status for record in one.records}
        assert {"failed", "recorded", "passed"} == {*statuses.values()}
        assert statuses == {record.nodeid: record.status for record in run.records}
        assert ["failed"] == [threshold.status for threshold in one.thresholds]


def test_a_doubt_in_the_examples_is_a_warning_as_for_users(pytester):
    """The project's own tests turn warnings into errors, with which the README's first command may be red."""
    shutil.copy(ROOT / "examples" / "pytest.ini", pytester.path)
    pytester.makepyfile("""
        import pytest

        @pytest.mark.speedup(min=9.95)
        def test_in_doubt(device):
            return lambda: device.xp.ones(4)
    """)
    with warnings.catch_warnings():
        warnings.resetwarnings()  # of our own run
        result = pytester.runpytest_inprocess("--gpuperf-gpu=simulated", "--gpuperf-max-time=1")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*InconclusiveWarning*"])


def test_the_first_command_gives_the_same_few_lines_each_time_and_none_twice(pytester):
    """As README has it, less the installation."""
    (command,) = re.findall(
        r"pytest examples/try_it.*simulated.*", (ROOT / "README.md").read_text(encoding="utf-8")
    )
    shutil.copytree(ROOT / "examples", pytester.path / "examples")
    shown = []
    for _ in range(2):
        result = pytester.runpytest_inprocess(*shlex.split(command)[1:], "-p", "no:randomly")
        assert result.ret == 0
        heading = next(number for number, line in enumerate(result.outlines) if _IS_OURS(line))
        shown.append([line for line in result.outlines[heading:] if line][1:-1])
    assert shown[0] == shown[1]
    assert 8 < len(shown[0]) <= 20
    assert len({*shown[0]}) == len(shown[0])
    verdicts = [line.split()[-1] for line in shown[0][2:7]]
    assert verdicts == ["passed", "passed", "recorded", "recorded", "recorded"]
    assert (pytester.path / "report.json").exists()


FOUR_GPUS = """
from pytest_gpuperf.devices.simulated import SimulatedBackend

def pytest_gpuperf_devices():
    return [SimulatedBackend(name="four", count=4)]
"""


def test_the_examples_run_on_both_devices(ran, pytester):
    pytester.makeconftest(FOUR_GPUS)
    sources = {
        path.name: smaller(path.read_text(encoding="utf-8").split('"""', 2)[2])
        for path in [*EXAMPLES, TRY_IT]
    }
    passed, skipped, failed = ran(
        sources, "--gpuperf-gpu=four", "--gpuperf-fail=nothing", "--gpuperf-json=report.json"
    )
    assert (sources.keys(), set(), set()) == (passed, skipped, failed)
    summary = json.loads((pytester.path / "report.json").read_text())["summary"]
    assert (0, 0) == (summary["error"], summary["skipped"])


def test_without_keras_its_example_is_skipped_with_the_reason(pytester, monkeypatch):
    monkeypatch.setitem(sys.modules, "keras", None)
    pytester.makepyfile(IN_KERAS.read_text(encoding="utf-8"))
    result = pytester.runpytest_inprocess("-p", "no:randomly", "--gpuperf-gpu=simulated", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*Keras, or what it shall run on, is not installed"])


@each_example
def test_an_example_has_its_claim_its_expectation_and_its_source_and_uses_only_the_contract(example):
    claim, *others = docstring(example).splitlines()
    assert re.fullmatch(r".+\.", claim)
    assert ["Expect", "Source:"] == [line.split()[0] for line in others]
    text = example.read_text(encoding="utf-8")
    assert set(re.findall(r"^(?:import|from) (\w+)", text, flags=re.MULTILINE)) <= {"numpy", "pytest"}


def test_the_gallery_names_every_example_and_no_other_with_its_claim():
    claims = {path.name: docstring(path).partition("\n")[0].rstrip(".") for path in EXAMPLES}
    assert [[claim, f"[{name}]({name})"] for name, claim in claims.items()] == sorted(
        (row[:2] for row in gallery()), key=lambda row: row[1]
    )

    assert all(len(row) == len(HEADINGS) and all(row) for row in gallery())
