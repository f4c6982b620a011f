"""`--gpuperf-all`: every test that has variants is timed, and none of them notices."""

import re
import sys
import xml.etree.ElementTree as ElementTree

import pytest
from cards import REAL
from cases import for_each

ALL = """
import random
import warnings

numpy_random = pytest.importorskip("numpy").random
STATE = []

def test_passes(xp):
    xp.ones(3)

def test_fails(xp):
    assert xp.__name__ == "neither"

def test_skips(xp):
    pytest.skip("not today")

@pytest.mark.skip(reason="never")
def test_is_skipped(xp):
    pass

@pytest.mark.xfail(strict=True, reason="known")
def test_xfails(xp):
    assert xp.__name__ == "neither"

@pytest.mark.xfail(strict=False)
def test_xpasses(xp):
    xp.ones(3)

@pytest.mark.xfail(strict=True)
def test_xpasses_strictly(xp):
    xp.ones(3)

def test_only_once(xp):
    STATE.append(xp.__name__)
    assert STATE.count(xp.__name__) == 1, "a second call"

def test_warns(xp):
    xp.ones(3)
    warnings.warn(f"of {xp.__name__}")

def test_prints(xp, capsys):
    print(xp.ones(3).sum())
    assert capsys.readouterr().out == "3.0\\n"

def test_prints_unseen(xp):
    print("to whom", xp.ones(3).sum())

def test_logs(xp, caplog):
    import logging
    logging.getLogger().warning("one")
    assert len(caplog.records) == 1

def test_hears(xp, recwarn):
    warnings.warn("heard")
    xp.ones(3)
    assert len(recwarn) == 1

def test_records(xp, record_property):
    record_property("n", 3)

def test_draws(xp):
    random.random(), numpy_random.random()
    xp.ones(3)

def test_draws_what_comes_next():
    print("DRAWN", random.random(), numpy_random.random())

@pytest.mark.parametrize("backend", ["torch:cpu", "jax:cpu", "cupy"])
def test_ambiguous(backend):
    pass
"""
SEEDED = """
    def pytest_sessionstart():
        import random, numpy
        random.seed(3), numpy.random.seed(3)
"""
TOLD = {
    "test_passes": "recorded",
    "test_fails": "error",
    "test_skips": "skipped",
    "test_is_skipped": "skipped",
    "test_xfails": "error",
    "test_xpasses": "recorded",
    "test_xpasses_strictly": "recorded",
    "test_only_once": "error",
    "test_draws": "recorded",
    "test_prints": "recorded",
    "test_logs": "error",  # caplog keeps the records of all calls
    "test_hears": "recorded",
}


def test_timing_all_tests_changes_no_outcome_and_nothing_that_they_see(suite):
    def told(found):
        cases = ElementTree.parse(found.path / "j.xml").getroot().iter("testcase")
        properties = [[each.get("name") for each in case.iter("property")] for case in cases]
        others = [[name for name in names if not name.startswith("gpuperf.")] for names in properties]
        text = "\n".join(line.strip() for line in found.result.outlines)
        lines = re.sub(r"^-+ gpuperf -+\n(.*\n)*?(?==)", "", text, flags=re.MULTILINE).splitlines()
        return lines[lines.index("") : -1], found.result.parseoutcomes(), others

    options = ["-v", "-rA", "-W", "always", "--junit-xml=j.xml", "-o", "junit_family=xunit1"]
    before = suite(ALL, *options, conftest=SEEDED)
    seen = {*before.result.parseoutcomes()}
    assert {"passed", "failed", "skipped", "xfailed", "xpassed", "warnings"} == seen
    expected = told(before)
    found = suite(ALL, *options, "--gpuperf-all", conftest=SEEDED)
    for one, other in zip(expected, told(found), strict=True):
        assert one == other
    assert any(line.startswith("DRAWN 0.") for line in expected[0])
    assert ["n"] in expected[2]
    assert {"all"} == {record["source"] for record in found.records.values()}
    for name, status in TOLD.items():
        assert status == found.statuses[f"{name}[cupy]"], name
    assert 10 == found.speedup("test_passes[cupy]")
    assert "a second call" in found.records["test_only_once[numpy]"]["reason"]
    others = ("test_ambiguous", "test_draws_what")  # of the first any CPU may be the partner
    assert not [name for name in found.records if name.startswith(others)]


def test_a_test_that_takes_long_is_not_called_again(suite):
    source = """
CALLS = []

def test_ones(xp):
    CALLS.append(xp.__name__)

def test_after():
    assert CALLS == ["numpy", "cupy"]
"""
    found = suite(source, "--gpuperf-all", "--gpuperf-max-time=1e-9")
    found.ended(passed=3)
    assert {"skipped"} == {*found.statuses.values()}
    for record in found.records.values():
        assert "more than an eighth of --gpuperf-max-time" in record["reason"]


@for_each(
    ("code", "reason", "end"),
    [
        (2, "interrupted on the CPU", "raise KeyboardInterrupt"),
        (7, "interrupted on the CPU (simulated CPU) by Exit: enough", "pytest.exit('enough', returncode=7)"),
    ],
)
def test_what_ends_the_session_while_all_tests_are_timed_ends_the_run(suite, code, reason, end):
    source = f"""
CALLS = []

def test_ones(xp):
    CALLS.append(xp)
    if len(CALLS) == 3:
        {end}
"""
    found = suite(source, "--gpuperf-all", interrupts=True)
    assert code == found.result.ret
    assert reason in found.records["test_ones[numpy]"]["reason"]
    assert found.written["complete"] is False


def test_jax_variants_are_left_alone_without_a_gpu_unless_one_is_required(suite, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    source = """
@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_ones(backend):
    conftest.numpy.ones(3)
"""
    found = suite(source, "--gpuperf-all")
    found.ended(passed=2)
    assert {} == found.records
    found.says("--gpuperf-all: 0 tests: no unmarked test has variants on the CPU and on a GPU*")
    required = suite(source, "--gpuperf-all", "--gpuperf-require-gpu", conftest=REAL)
    assert pytest.ExitCode.USAGE_ERROR == required.result.ret
    required.result.stderr.fnmatch_lines(
        ["*--gpuperf-all: no test has CPU and GPU variants; *; a test without variants needs *"]
    )
