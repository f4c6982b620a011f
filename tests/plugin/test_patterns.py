"""`gpuperf_speedup`: patterns in the ini file that ask of tests without a marker."""

import sys

import pytest

UNTOUCHED = """
@pytest.mark.parametrize("n", [3, 4])
def test_ones(xp, n):
    xp.ones(n)

class TestMore:
    def test_zeros(self, xp):
        xp.zeros(3)

    @pytest.mark.speedup(min=4)
    def test_marked(self, xp):
        xp.zeros(3)

def test_slot(device):
    device.xp.ones(3)

def test_plain():
    pass
"""


def asked(*lines):
    return "gpuperf_speedup =\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("lines", "limits"),
    [
        (["test_it.py::* min=2"], {"n]": 2, "zeros": 2, "marked": 4, "slot": 2}),
        (["*"], {"ones": None, "zeros": None, "marked": 4, "slot": None}),
        (["* min=2", "*::test_ones* min=3 max_time=5"], {"ones": 3, "zeros": 2, "marked": 4, "slot": 2}),
        (["*::test_ones* min=3", "* min=2"], {"ones": 2, "zeros": 2, "marked": 4, "slot": 2}),
        (["*test_ones[cupy-4] min=3"], {"ones[cupy-4]": 3, "ones[numpy-4]": 3, "marked": 4}),
        (["*test_ones[numpy-4] min=3"], {"ones[cupy-4]": 3, "ones[numpy-4]": 3, "marked": 4}),
        (["'*::TestMore::*' transfer=always"], {"zeros": None, "marked": 4}),
    ],
    ids=str,
)
def test_patterns_ask_of_tests_without_a_marker_and_the_last_that_matches_counts(suite, lines, limits):
    found = suite(UNTOUCHED, "--gpuperf-gpu=none", ini=asked(*lines))  # what is asked needs no measurement
    assert not {*found.result.parseoutcomes()} - {"passed", "failed", "skipped"}
    for name, limit in limits.items():
        listed = [record for nodeid, record in found.records.items() if name in nodeid]
        assert all(limit == record["demand"]["min"] for record in listed), name
    of_pattern = {nodeid for nodeid, record in found.records.items() if record["source"] == "pattern"}
    assert not [nodeid for nodeid in of_pattern if "marked" in nodeid]
    told = {name for name in ("ones", "zeros", "slot") for nodeid in of_pattern if name in nodeid}
    assert {name.partition("[")[0] for name in limits} - {"marked", "n]"} <= told


@pytest.mark.parametrize("half", ["numpy", "torch"])
def test_a_pattern_of_tests_that_are_on_the_gpu_of_another_machine_is_no_error_here(suite, monkeypatch, half):
    monkeypatch.setitem(sys.modules, "torch", None)
    source = """
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_ones(backend):
    conftest.numpy.ones(3)
"""
    found = suite(source, ini=asked(f"test_it.py::test_ones[{half}]"))
    found.ended(passed=2)
    assert {} == found.records
    found.says(f"gpuperf_speedup test_it.py::test_ones[[]{half}]: 0 tests")


def test_a_demand_of_a_pattern_fails_its_test(suite):
    found = suite(UNTOUCHED, ini=asked("*::test_ones* min=300"))
    found.ended(passed=9, failed=2)
    assert "failed" == found.statuses["test_ones[cupy-4]"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("*::test_ons* min=3", "no test that can be timed matches '[*]::test_ons[*]'"),
        ("*::test_plain min=3", "no test that can be timed matches '[*]::test_plain'"),
        ("*::test_ones[cupy-[34]] min=3", "no test that can be timed matches *[[]34]]'*"),
        ("test_gone.py::* min=3", "no test that can be timed matches 'test_gone.py::[*]'"),
        ("* least=3", "'[*] least=3': has no argument 'least'*"),
        ("* min=fast", "'[*] min=fast': min must be a finite number above 0, not 'fast'"),
        ("* min", "'[*] min': 'min' is not an argument; expected NAME=VALUE, e.g. min=2"),
        ("* min=3 max=2", "*min must be at most max*"),
        ("'* min=3", "*No closing quotation*"),
    ],
)
def test_a_pattern_that_is_wrong_is_an_error_before_the_first_test_that_names_its_line(suite, line, said):
    source = UNTOUCHED + "\ndef test_first():\n    print('a test ran')\n"
    found = suite(source, "-s", ini=asked("test_it.py::test_slot* min=2", line))
    assert pytest.ExitCode.USAGE_ERROR == found.result.ret
    found.result.stderr.fnmatch_lines([f"*gpuperf_speedup: *{said}*"])
    found.result.stdout.no_fnmatch_line("*a test ran*")


ON_A_WORKER = """
    def pytest_configure(config):
        config.workeroutput = {}

    def pytest_unconfigure(config):
        print("LEFT FOR THE CONTROLLER", config.workeroutput)
"""


@pytest.mark.parametrize(
    ("options", "ini", "said"),
    [
        ([], asked("*::test_ons* min=3"), "gpuperf_speedup: no test that can be timed matches"),
        ([], asked("* least=3"), "gpuperf_speedup: '* least=3': has no argument 'least'"),
        (["--gpuperf-all", "-k", "plain"], "gpuperf_device_params = engine", "--gpuperf-all: no test has"),
    ],
)
def test_a_worker_leaves_such_an_error_for_its_controller(suite, options, ini, said):
    source = UNTOUCHED.replace("device", "cpu").replace("speedup", "slow")
    found = suite(source, "-s", *options, ini=ini, conftest=ON_A_WORKER)
    assert pytest.ExitCode.USAGE_ERROR == found.result.ret
    (left,) = [line for line in found.result.outlines if "LEFT FOR THE CONTROLLER" in line]
    assert said in left.replace('"', "'").replace("\\'", "'")


def test_xdists_controller_tells_what_a_worker_left(suite, forked_workers):
    pytest.importorskip("xdist", reason="the extra `test` has pytest-xdist")
    found = suite(UNTOUCHED, "-n1", ini=asked("*::test_ons* min=3"))
    assert pytest.ExitCode.USAGE_ERROR == found.result.ret
    said = "gpuperf_speedup: no test that can be timed matches"
    assert said in found.result.stdout.str() + found.result.stderr.str()
    assert "INTERNALERROR" not in found.result.stdout.str()


def test_a_pattern_about_a_file_that_was_not_asked_for_is_not_missed(suite, pytester):
    pytester.makepyfile(test_other=f"import pytest\n{UNTOUCHED}")
    ini = asked("test_it.py::* min=2", "test_other.py::TestMore::test_zeros* min=3")
    found = suite(UNTOUCHED, "test_other.py::test_ones", ini=ini)
    found.ended(passed=4)
    assert {} == found.records
    found = suite(UNTOUCHED, "test_it.py", ini=ini)
    found.ended(passed=11)
    found = suite(UNTOUCHED, "test_it.py", ini=asked("*::test_ons* min=3"))
    assert pytest.ExitCode.USAGE_ERROR == found.result.ret


def test_a_backslash_in_a_pattern_is_as_any_other_letter(suite):
    found = suite(
        r"""
@pytest.mark.parametrize("text", ["\x07", "x07"])
def test_text(xp, text):
    xp.ones(3)
""",
        ini=asked(r"*\x07] min=3"),
    )
    assert [3, 3] == [record["demand"]["min"] for record in found.records.values()]


def test_a_deselected_test_without_a_variant_is_no_error(suite):
    source = """
import numpy

@pytest.mark.parametrize("module", [numpy])
def test_alone(module):
    module.ones(3)

def test_ones(xp):
    xp.ones(3)
"""
    found = suite(source, "-k", "not test_alone", ini="gpuperf_speedup = test_it.py::*")
    found.ended(passed=2, deselected=1)
    assert {"test_ones[numpy]", "test_ones[cupy]"} == {*found.records}


def test_lonely_tests_of_a_file_that_is_collected_twice_are_taken_back(suite):
    source = "@pytest.mark.parametrize('device', ['cpu'])\ndef test_lonely(device): pass"
    found = suite(source, "--keep-duplicates", "test_it.py", "test_it.py", ini=asked("test_it.py::* min=2"))
    assert pytest.ExitCode.USAGE_ERROR == found.result.ret
    assert "gpuperf_speedup: no test that can be timed matches 'test_it.py::*'" in found.result.stderr.str()
