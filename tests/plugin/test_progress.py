"""What a terminal shows while a run measures, and with -v: verdict and speedup in the line of each test."""

import re
import subprocess
import sys
from fnmatch import fnmatchcase

import pytest
from cases import for_each

from pytest_gpuperf.session import live_line

SUITE = """
    import pytest

    def work(device):
        return lambda: device.launch(0.01 if device.kind == "cpu" else 0.001)

    @pytest.mark.speedup(min=3)
    def test_met(device):
        return work(device)

    @pytest.mark.speedup(min=30)
    def test_missed(device):
        print("printed by a test")
        return work(device)

    @pytest.mark.speedup(min=10)
    def test_inconclusive(device):
        return work(device)

    @pytest.mark.xfail(reason="a bad day")
    @pytest.mark.speedup(min=30)
    def test_expected(device):
        return work(device)

    @pytest.mark.speedup(min=3)
    def test_skipped(device):
        pytest.skip("a day off")

    @pytest.mark.speedup(min=3)
    def test_raising(device):
        return lambda: 1 / 0

    @pytest.mark.speedup(min=3)
    def test_pair(xp):
        return lambda: xp.ones(3)

    def test_plain():
        pass
"""

SIZE_GROUP = """
    import pytest

    @pytest.mark.parametrize("n", range(6))
    @pytest.mark.speedup
    def test_it(device, n):
        return device.launch

    @pytest.mark.speedup(max_time=12)
    def test_long(device):
        return device.launch

    def test_plain():
        pass
"""


def told(result) -> dict[str, str]:
    """Return what the lines of tests say of them, by their names."""
    lines = [re.match(r"test_it\.py::(\w+) (.+?) +\[ *\d+%\]$", line) for line in result.outlines]
    return {line[1]: line[2] for line in lines if line}


def test_verbose_lines_have_the_speedup_and_what_it_rests_on(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    result = run(SUITE, "-v", "-rA", "-Wignore::pytest_gpuperf.InconclusiveWarning")
    ratio = "9.95x [[]9.95, 9.95]"
    expected = {
        "test_met": f"PASSED ({ratio}, required 3x, 7 rounds in 77.0 ms, 351 ms)",
        "test_missed": f"FAILED ({ratio}, required 30x, 13? rounds in 2.0? s, 2.?? s)",
        "test_inconclusive": f"PASSED ({ratio}, required 10x, inconclusive, ??? rounds in 7.5? s, 7.?? s)",
        "test_expected": f"XFAIL ({ratio}, required 30x, 13? rounds in 2.0? s, 2.?? s) (a bad day)",
        "test_skipped": "SKIPPED (a day off)",
        "test_raising": "FAILED",
        "test_pair": f"PASSED ({ratio}, required 3x, 7 rounds in 77.0 ms, 361 ms)",
        "test_plain": "PASSED",
    }
    said = told(result)
    assert expected.keys() == said.keys()
    assert [] == [text for name, text in said.items() if not fnmatchcase(text, expected[name])]
    result.assert_outcomes(passed=4, failed=2, skipped=1, xfailed=1)
    # The summary at the end has the words alone.
    result.stdout.fnmatch_lines(["PASSED test_it.py::test_met", "FAILED test_it.py::test_missed - *"])


@for_each(
    ("expected", "options"),
    [
        (["gpuperf: 7 tests are measured, for at most 72 s"], ()),
        ([], ("-q",)),
        ([], ("--collect-only",)),
        ([], ("--gpuperf-max-time=8",)),
    ],
)
def test_a_run_that_may_take_longer_than_a_minute_says_so_before_its_first_test(run, expected, options):
    result = run(SIZE_GROUP, *options)
    assert expected == [line for line in result.outlines if line.startswith("gpuperf:")]


@pytest.fixture
def config_of(pytester, setting, request):
    """Return the configuration of a run on a terminal, with these options and in this environment."""
    pytest.importorskip("termios", reason="the system has no such terminals")
    from screen import Screen

    def call(*options, **environment):
        for name, value in {**ON_A_TERMINAL, **environment}.items():
            setting(name, value)
        config = pytester.parseconfigure("-p", "logging", *options)
        screen = Screen()
        request.addfinalizer(screen.close)
        if reporter := config.pluginmanager.get_plugin("terminalreporter"):
            reporter._tw._file = screen.file
        return config

    return call


ON_A_TERMINAL = {"CI": None, "BUILD_NUMBER": None, "JPY_PARENT_PID": None, "TERM": "xterm"}


def has_live_line(config) -> bool:
    return live_line.of_run(config) is not None


@for_each("options", [(), ("-v",), ("-vv", "--capture=fd"), ("--color=no",), ("--pdb",)])
def test_a_terminal_has_a_live_line(config_of, options):
    assert has_live_line(config_of(*options))


@for_each(
    ("options", "environment"),
    [
        (("-q",), {}),
        (("-s",), {}),
        (("--capture=tee-sys",), {}),
        (("--capture=sys",), {}),
        (("--log-cli-level=INFO",), {}),
        (("-o", "log_cli=true"), {}),
        (("-p", "no:terminal"), {}),
        ((), {"CI": "true"}),
        ((), {"BUILD_NUMBER": "7"}),
        ((), {"TERM": "dumb"}),
        ((), {"TERM": None}),
        ((), {"JPY_PARENT_PID": "7"}),
    ],
)
def test_there_is_no_live_line_where_nobody_watches_or_others_write(config_of, options, environment):
    assert not has_live_line(config_of(*options, **environment))


def test_there_is_no_live_line_in_a_file_or_beside_another_reporter(config_of, tmp_path):
    config = config_of("--color=yes")
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    with (tmp_path / "log").open("w") as reporter._tw._file:
        assert not has_live_line(config)
    config = config_of()
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    config.pluginmanager.unregister(reporter)
    reporter.__class__ = type("SugarTerminalReporter", (pytest.TerminalReporter,), {})
    config.pluginmanager.register(reporter, "terminalreporter")
    assert not has_live_line(config)


OURS = rb"\x1bD\x1b\[A\x1b7\r+\n\x1b\[K\x1b\[\?7l(.*?)\x1b\[\?7h\x1b8|\x1b\[J"


def test_on_a_terminal_a_run_looks_in_the_end_as_if_nothing_had_been_shown_meanwhile(pytester, setting):
    pytest.importorskip("termios", reason="the system has no such terminals")
    from screen import Screen

    for name, value in ON_A_TERMINAL.items():
        setting(name, value)
    pytester.makepyfile(test_it=SUITE)
    pytester.makeconftest(
        """
        from pytest_gpuperf.session import live_line

        live_line._QUIET = live_line._INTERVAL = 0  # as simulated time takes none
        """
    )
    screen = Screen(columns=100, rows=12)
    command = [sys.executable, "-m", "pytest", "-p", "gpuperf", "--gpuperf-gpu=simulated", "--tb=short"]
    ran = subprocess.Popen(command, cwd=pytester.path, stdout=screen.file, stderr=screen.file)
    screen.read_to_the_end()
    assert pytest.ExitCode.TESTS_FAILED == ran.wait()
    shown = [text.decode() for text in re.findall(OURS, screen.written)]
    assert "test_missed  7 rounds  9.95x [9.95, 9.95]  required 30x  0 s" in shown
    assert 5 == shown.count("")  # one for each test that was measured
    assert screen.shows(re.sub(OURS, b"", screen.written)) == screen.shows(screen.written)
