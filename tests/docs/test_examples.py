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

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("test_*.py"))
TRY_IT = ROOT / "examples" / "try_it" / "test_try_it.py"
_IS_OURS = re.compile("^-+ gpuperf -+$").match


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
    files = ("--gpuperf-json=report.json", "--gpuperf-markdown=summary.md")
    ran({example.name: source}, "--gpuperf-gpu=simulated", *files)
    commands = (pytester.path / "summary.md").read_text(encoding="utf-8").splitlines()
    (command,) = (line for line in commands if line.startswith(f"pytest {example.name}::test_density"))
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    printed = ["/bin/sh", "-c", f"{command} --gpuperf-json=again.json"]
    done = subprocess.run(printed, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert f"pytest {example.name}::test_density --gpuperf-gpu=simulated" == command
    run, again = (json.loads((pytester.path / f"{name}.json").read_text()) for name in ("report", "again"))
    statuses = {record["nodeid"]: record["status"] for record in run["records"]}
    assert {"failed", "recorded", "passed"} == {*statuses.values()}
    assert statuses == {record["nodeid"]: record["status"] for record in again["records"]}
    assert ["failed"] == [each["status"] for each in run["thresholds"]]
    assert ["failed"] == [each["status"] for each in again["thresholds"]]


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


def test_an_example_has_its_claim_in_the_gallery_its_expectation_and_its_source_and_uses_only_the_contract():
    gallery = (ROOT / "examples" / "README.md").read_text(encoding="utf-8").splitlines()
    rows = [line.strip("|").split("|") for line in gallery if line.startswith("|")][2:]
    claims = {}
    for example in EXAMPLES:
        text = example.read_text(encoding="utf-8")
        claim, *others = ast.get_docstring(ast.parse(text)).splitlines()
        claims[f"[{example.name}]({example.name})"] = claim.removesuffix(".")
        assert ["Expect", "Source:"] == [line.split()[0] for line in others], example
        assert {*re.findall(r"^(?:import|from) (\w+)", text, flags=re.MULTILINE)} <= {"numpy", "pytest"}, (
            example
        )
    assert claims == {file.strip(): claim.strip() for claim, file, *_ in rows}
