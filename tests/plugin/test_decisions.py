"""What a regression check decides, at both doors: pytest's and that of `gpuperf compare`."""

import json
import re

import pytest

from pytest_gpuperf.cli import main

OPTIONS = {
    "default": (),
    "strict": ("strict",),
    "missing": ("allow=missing",),
    "no-gpu": ("allow=no-gpu",),
    "doubt": ("fail=doubt",),
    "nothing": ("fail=nothing",),
    "improvement": ("fail-on=improvement",),
    "strict, missing": ("strict", "allow=missing"),
}
# Each state of a test, with each of the options above: `test` fails the test, `run` the run as a whole.
TABLE = """
new        new             -     -     -     -     -     -  -       -
same       not_regressed   -     -     -     -     -     -  -       -
worse      regressed       test  test  test  test  test  -  test    test
better     improved        -     -     -     -     -     -  test    -
unclear    inconclusive    -     -     -     -     test  -  -       -
elsewhere  not_comparable  -     test  -     -     -     -  -       test
broken     not_measured    test  test  test  test  test  -  test    test
silent     not_measured    run   run   run   run   run   -  run     run
renamed    gone            run   run   -     run   run   -  run     -
ungrouped  gone            run   run   -     run   run   -  run     -
hidden     gone            run   run   -     run   run   -  run     -
skipped    skipped         run   run   -     run   run   -  run     -
excused    excused         run   run   -     run   run   -  run     -
narrowed   narrowed        -     run   -     -     -     -  -       -
cut_off    ended           run   run   run   run   run   -  run     run
"""
STATES = [line.split() for line in TABLE.strip().splitlines()]


def decisions(option):
    """Return what fails by the states of tests."""
    column = [*OPTIONS].index(option) + 2
    return {row[0]: row[column] for row in STATES}


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
    "better": 1e-3,
    "unclear": 5.55e-3,
    "broken": "raise ValueError('it broke')",
    "silent": "): pass",
    "renamed": "new",
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
        return ran, *compared(option)

    def compared(option):
        asked = [f"--{each}" for each in OPTIONS[option]]
        capsys.readouterr()
        code = main(["compare", "base.json", "new.json", "--fail-on=speedup:10%", *asked])
        return code, capsys.readouterr().out.splitlines()

    call.compared = compared
    return call


def failed(lines):
    """Return what the lines of failures say."""
    return " ".join(line for line in lines if line.startswith("FAILED: "))


def outcomes(report):
    """Return what became of each test, or of the group that it belongs to."""
    found = [
        (each["nodeid"], each["comparisons"][0]["outcome"])
        for each in report["records"]
        if each["comparisons"]
    ]
    found += [(each["name"], each["cause"]) for each in report["gate"]["absent"]]
    return {re.search(r"test_(\w+)(\[|$)", name)[1]: outcome for name, outcome in found}


@pytest.mark.parametrize("option", OPTIONS)
def test_both_doors_decide_as_the_table_says(decided, pytester, option):
    ran, code, compared = decided(option, HIDES)
    failures = re.findall(r"^FAILED test_it\.py::test_(\w+) -", str(ran.stdout), re.MULTILINE)
    expected = decisions(option)
    del expected["cut_off"]
    found = {}
    for state in expected:
        of_test = "test" if state in failures else "-"
        found[state] = "run" if f"test_{state}" in failed(ran.outlines) else of_test
    # A body that raises fails its test, whatever the check's options are.
    assert expected | {"broken": "test"} == found
    fails = [state for state, fails in expected.items() if fails != "-"]
    assert fails == [state for state in expected if f"test_{state}" in failed(compared)]
    assert int(option != "nothing") == code
    report = json.loads((pytester.path / "new.json").read_text(encoding="utf-8"))
    became = {row[0]: row[1] for row in STATES if row[0] in expected}
    if option == "nothing":  # then the test does not fail as xfail expects
        became["excused"] = "regressed"
    assert became == outcomes(report)
    if option == "default":
        ran.stdout.fnmatch_lines(["*InconclusiveWarning*speedup is inconclusive*"])
    if option == "no-gpu":  # which excuses a skip in a run without one alone
        report["environment"] |= {"gpu": None, "gpu_reason": "no GPU"}
        (pytester.path / "new.json").write_text(json.dumps(report), encoding="utf-8")
        assert "test_skipped" not in failed(decided.compared(option)[1])


@pytest.mark.parametrize("option", ["default", "nothing", "strict, missing"])
def test_a_session_that_ends_itself_early_fails_as_the_table_says(decided, option):
    ran, code, _ = decided(option, ENDS)
    fails = decisions(option)["cut_off"] == "run"
    assert [fails] * 3 == [bool(ran.ret), "session ended" in failed(ran.outlines), bool(code)]
