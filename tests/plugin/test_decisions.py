"""The decisions of a regression check, at both doors: pytest's exit code, and that of `gpuperf compare`."""

import json

import pytest
from decisions import OPTIONS, ROWS, Row

from pytest_gpuperf.cli import main

GATE = ("--gpuperf-baseline=base.json", "--gpuperf-fail-on=speedup:10%")
# Without a GPU the simulated device's workload cannot run.
DECIDED = [row for row in ROWS[::5] if row.option != "without"]
ALSO = {
    ("worse", "nothing"),
    ("better", "default"),
    ("better", "improvement"),
    ("unclear", "doubt"),
    ("renamed", "missing"),
    ("narrowed", "strict"),
    ("cut off", "default"),
}
DECIDED += [row for row in ROWS if (row.state, row.option) in ALSO and row not in DECIDED]
SUITE = """
import pytest

@pytest.mark.speedup
def test_other(device):
    return lambda: device.launch(10e-3 if device.kind == "cpu" else 1e-3)

{group}
@pytest.mark.speedup
{marks}
def test_{name}({fixtures}):
    {body}
"""
HONEST = {
    "name": "a",
    "fixtures": "device",
    "marks": "",
    "group": "",
    "body": "return lambda: device.launch(10e-3 if device.kind == 'cpu' else {gpu})",
}
GROUPED = {
    **HONEST,
    "fixtures": "device, n",
    "marks": "@pytest.mark.parametrize('n', [1, 2])",
    "group": "@pytest.mark.offload_threshold('n')",
}
NOW = {
    "broken": {"body": "raise ValueError('it broke')"},
    "silent": {"fixtures": "", "body": "pass"},
    "renamed": {"name": "b"},
    "ungrouped": {"group": ""},
    "skipped": {"body": "pytest.skip('not today')"},
    "excused": {"marks": "@pytest.mark.xfail"},
}
GPU = {"worse": 2e-3, "better": 0.5e-3, "unclear": 1.11e-3, "excused": 2e-3}
# The first test ends the session as a success, and configuration leaves a test out.
CONFTEST = {
    "cut off": """
        import pytest
        def pytest_runtest_teardown(item):
            if item.name == "test_other":
                pytest.exit("enough", returncode=0)
    """,
    "hidden": """
        def pytest_collection_modifyitems(config, items):
            config.hook.pytest_deselected(items=items[1:])
            del items[1:]
    """,
}


def edited(path):
    """Let the baseline of one test be that of another GPU."""
    content = json.loads(path.read_text(encoding="utf-8"))
    for record in (each for each in content["records"] if "test_a" in each["nodeid"]):
        record["gpu"]["device"]["name"] = "another GPU"
    path.write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize("row", DECIDED, ids=[f"{row.state}, {row.option}" for row in DECIDED])
def test_both_doors_decide_as_the_table_says(pytester, row: Row):
    def run(*options, gpu=1e-3, **changes):
        known = (GROUPED if row.state == "ungrouped" else HONEST) | changes
        body = known["body"].replace("{gpu}", str(gpu))
        pytester.makepyfile(test_it=SUITE.format(**{**known, "body": body}))
        return pytester.runpytest_inprocess("-pno:randomly", "-Wdefault", *options)

    device = "--gpuperf-gpu=simulated"
    assert run(device, *GATE, "--gpuperf-baseline-missing=create").ret == 0
    pytester.makeconftest(CONFTEST.get(row.state, ""))
    if row.state == "elsewhere":
        edited(pytester.path / "base.json")
    typed = ("-k", "other") if row.state == "narrowed" else ()
    options = [f"--gpuperf-{each}" for each in OPTIONS[row.option]]
    ran = run(
        *(device, *GATE, *typed, *options, "--gpuperf-json=new.json"),
        gpu=GPU.get(row.state, 1e-3),
        **NOW.get(row.state, {}),
    )
    # A body that raises fails its test, whatever the check's options are.
    fails = row.fails != "-" or row.state == "broken"
    assert int(fails) == ran.ret, str(ran.stdout)
    if row.fails == "test":
        ran.assert_outcomes(passed=1, failed=1)
    elif row.fails == "run":
        assert any(line.startswith("FAILED: ") for line in ran.outlines)
    if row.state == "excused" and row.option == "default":
        ran.stdout.fnmatch_lines(["*expected to fail (xfail): speedup got worse*"])
    if row.state == "unclear" and row.option == "default":
        ran.stdout.fnmatch_lines(["*InconclusiveWarning*speedup is inconclusive*"])
    command = ["compare", "base.json", "new.json", "--fail-on=speedup:10%"]
    code = main([*command, *(f"--{each}" for each in OPTIONS[row.option])])
    # A report of a session that ended early fails there whatever its options are, unless nothing fails.
    assert bool(code) == (row.fails != "-")
