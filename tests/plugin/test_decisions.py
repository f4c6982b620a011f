"""The decisions of a regression check, at both doors: pytest's and that of `gpuperf compare`."""

import json
import re

import pytest
from decisions import OPTIONS, ROWS

from pytest_gpuperf.cli import main

GATE = ("--gpuperf-gpu=simulated", "--gpuperf-baseline=base.json", "--gpuperf-fail-on=speedup:10%")
SUITE = """
import pytest

def timed(device, gpu=5e-3):
    return lambda: device.launch(50e-3 if device.kind == "cpu" else gpu)

@pytest.mark.speedup
def test_same(device): return timed(device)

@pytest.mark.speedup
def test_worse(device): return timed(device, {worse})

@pytest.mark.speedup
def test_better(device): return timed(device, {better})

@pytest.mark.speedup
def test_unclear(device): return timed(device, {unclear})

@pytest.mark.speedup
def test_elsewhere(device): return timed(device)

@pytest.mark.speedup
def test_broken(device):
    {broken}
    return timed(device)

@pytest.mark.speedup
def test_silent({silent}

@pytest.mark.speedup
def test_{renamed}(device): return timed(device)

{ungrouped}
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.speedup
def test_ungrouped(device, n): return timed(device)

@pytest.mark.speedup
def test_hidden(device): return timed(device)

@pytest.mark.speedup
def test_skipped(device):
    {skipped}
    return timed(device)

{excused}
@pytest.mark.speedup
def test_excused(device): return timed(device, {worse})

@pytest.mark.speedup
def test_narrowed(device): return timed(device)
"""
BEFORE = {
    **dict.fromkeys(("worse", "better", "unclear"), 5e-3),
    **dict.fromkeys(("broken", "skipped"), "pass"),
    "silent": "device): return timed(device)",
    "renamed": "renamed",
    "ungrouped": "@pytest.mark.offload_threshold('n')",
    "excused": "",
}
NOW = {
    "worse": 10e-3,
    "better": 2.5e-3,
    "unclear": 5.55e-3,
    "broken": "raise ValueError('it broke')",
    "silent": "): pass",
    "renamed": "new_name",
    "ungrouped": "",
    "skipped": "pytest.skip('not today')",
    "excused": "@pytest.mark.xfail",
}
HIDES = """
    def pytest_collection_modifyitems(config, items):
        config.hook.pytest_deselected(items=[item for item in items if item.name == "test_hidden"])
        items[:] = [item for item in items if item.name != "test_hidden"]
"""
# The test `same` ends the session as a success, before the others.
ENDS = """
    import pytest
    def pytest_runtest_teardown(item):
        pytest.exit("enough", returncode=0)
"""
SOME = ("default", "nothing", "strict, missing")
BASE = {}


@pytest.fixture
def decided(pytester, capsys):
    """Run the suite against its baseline; return its result, the command's code and the command's lines."""

    def run(text, *options):
        pytester.makepyfile(test_it=text)
        return pytester.runpytest_inprocess("-pno:randomly", "-Wdefault", *GATE, *options)

    def call(option, conftest):
        base = pytester.path / "base.json"
        if not BASE:
            assert run(SUITE.format(**BEFORE), "--gpuperf-baseline-missing=create").ret == 0
            content = json.loads(base.read_text(encoding="utf-8"))
            for record in content["records"]:
                if "elsewhere" in record["nodeid"]:
                    record["gpu"]["device"]["name"] = "another GPU"
            BASE["json"] = json.dumps(content)
        base.write_text(BASE["json"], encoding="utf-8")
        pytester.makeconftest(conftest)
        asked = [f"--gpuperf-{each}" for each in OPTIONS[option]]
        ran = run(SUITE.format(**NOW), *asked, "-k", "not narrowed", "--gpuperf-json=new.json")
        capsys.readouterr()
        compared = [f"--{each}" for each in OPTIONS[option]]
        code = main(["compare", "base.json", "new.json", "--fail-on=speedup:10%", *compared])
        return ran, code, capsys.readouterr().out.splitlines()

    return call


def failed(lines):
    """Return what the lines of failures say."""
    return " ".join(line for line in lines if line.startswith("FAILED: "))


# Without a GPU the simulated device's workload cannot run.
@pytest.mark.parametrize("option", [each for each in OPTIONS if each != "without"])
def test_both_doors_decide_as_the_table_says(decided, option):
    ran, code, compared = decided(option, HIDES)
    failures = re.findall(r"^FAILED test_it\.py::test_(\w+) -", str(ran.stdout), re.MULTILINE)
    expected = {row.state: row.fails for row in ROWS if row.option == option and row.state != "cut off"}
    found = {}
    for state in expected:
        of_test = "test" if state in failures else "-"
        found[state] = "run" if f"test_{state}" in failed(ran.outlines) else of_test
    # A body that raises fails its test, whatever the check's options are.
    assert expected | {"broken": "test"} == found
    assert [state for state, fails in expected.items() if fails != "-"] == [
        state for state in expected if f"test_{state}" in failed(compared)
    ]
    assert int(option != "nothing") == code
    if option == "default":
        ran.stdout.fnmatch_lines(["*InconclusiveWarning*speedup is inconclusive*"])


@pytest.mark.parametrize("row", [row for row in ROWS if row.state == "cut off" and row.option in SOME])
def test_a_session_that_ends_itself_early_fails_as_the_table_says(decided, row):
    ran, code, _ = decided(row.option, ENDS)
    assert [row.fails == "run"] * 3 == [bool(ran.ret), "session ended" in failed(ran.outlines), bool(code)]
