"""What a terminal shows while a run measures, and with -v: verdict and speedup in the line of each test."""

import re
import subprocess
import sys

import pytest

from pytest_gpuperf.session import live_line

SUITE = """
    import pytest

    def work(device):
        return lambda: device.launch(0.01 if device.kind == "cpu" else 0.001)

    @pytest.mark.speedup(min=3)
    def test_met(device): return work(device)

    @pytest.mark.speedup(min=30)
    def test_missed(device):
        print("printed by a test")
        return work(device)

    @pytest.mark.xfail(reason="a bad day")
    @pytest.mark.speedup(min=30)
    def test_expected(device): return work(device)

    def test_plain(): pass
"""
MORE = """
    @pytest.mark.speedup(max=3)
    def test_at_most(device): return work(device)

    @pytest.mark.speedup(max_time=2000.5)
    def test_free(device): return work(device)

    @pytest.mark.speedup(min=2)
    def test_near(device): return lambda: device.launch(2e-3 if device.kind == "cpu" else 1e-3 - 5e-6)

    @pytest.mark.speedup(min=3)
    def test_differs(device): return lambda: device.xp.ones(3) * (1 if device.kind == "cpu" else 1.1)

    @pytest.mark.speedup
    def test_raises(device): raise ValueError
"""
LONG = "--gpuperf-max-time=21"
ON_A_TERMINAL = {"CI": None, "BUILD_NUMBER": None, "JPY_PARENT_PID": None, "TERM": "xterm"}


def test_verbose_lines_have_the_speedup_and_what_it_rests_on(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "130")
    found, slow = "(9.95x [[]9.95, 9.95], required", "30x, failed, 1?? rounds in 2.0? s, 2.?? s)"
    run(SUITE + MORE, "-v", "-rA", LONG).stdout.fnmatch_lines(
        [
            "gpuperf: 8 tests are measured, for at most 36 min",
            f"test_it.py::test_met PASSED {found} 3x, 7 rounds in 77.0 ms, 1?? ms) *%]",
            f"test_it.py::test_missed FAILED {found} {slow} *%]",
            f"test_it.py::test_expected XFAIL {found} {slow} (a bad day) *%]",
            "test_it.py::test_plain PASSED   *%]",
            "test_it.py::test_at_most FAILED (9.95x [[]9.95, 9.95], required at most 3x, failed, * rounds*",
            "test_it.py::test_free PASSED (9.95x [[]9.95, 9.95], 7 rounds in 77.0 ms, 2?? ms)*",
            "test_it.py::test_near FAILED (2.01x [[]2.01, 2.01], required 2x, inconclusive, * rounds *)*",
            "test_it.py::test_differs FAILED (9.98x [[]9.98, 9.98], required 3x, failed: results differ, *)*",
            "test_it.py::test_raises FAILED  *%]",
            "PASSED test_it.py::test_met",  # the summary at the end has the words alone
            "FAILED test_it.py::test_missed - *",
        ]
    )


def test_verbose_lines_say_the_verdict_of_what_pytest_counts_otherwise(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    run(SUITE, "-v", "--gpuperf-fail=nothing").stdout.fnmatch_lines(
        [
            "test_it.py::test_met PASSED (9.95x [[]9.95, 9.95], required 3x, 7 rounds *)*",
            "test_it.py::test_missed PASSED (9.95x [[]9.95, 9.95], required 30x, failed, * rounds *)*",
        ]
    )


@pytest.mark.parametrize(
    ("expected", "options"),
    [
        ("3 tests are measured, each for at most 3357 s (2.8 h in all)", ["--gpuperf-max-time=3357"]),
        ("1 test is measured, for at most 61 s", ["--gpuperf-max-time=60.5", "-k", "met"]),
    ],
)
def test_a_run_of_more_than_a_minute_says_how_long_it_may_take(run, expected, options):
    assert f"gpuperf: {expected}" in run(SUITE, *options).outlines


SKIPPED = """
    import pytest

    @pytest.mark.speedup
    @pytest.mark.parametrize("n", range(7))
    def test_it(device, n): pytest.skip()
"""


@pytest.mark.parametrize(
    ("more", "options"), [(", and for 30 s if calls are slow", ()), ("", ("--gpuperf-max-time=10",))]
)
def test_a_check_says_that_slow_calls_take_longer_where_nobody_set_a_limit(run, more, options):
    asked = ("--gpuperf-baseline=base.json", "--gpuperf-baseline-missing=create")
    said = f"gpuperf: 7 tests are measured, each for at most 10 s (70 s in all){more}"
    assert said in run(SKIPPED, *asked, *options).outlines
    assert "gpuperf: 7 tests are measured, each for at most 10 s (70 s in all)" in run(SKIPPED).outlines


@pytest.mark.parametrize("options", [("-q",), ("--co",), ("--gpuperf-max-time=20",)])
def test_a_run_that_is_short_or_shows_little_does_not_say_how_long_it_may_take(run, options):
    assert not re.search("^gpuperf: ", str(run(SUITE, LONG, *options).stdout), re.MULTILINE)


@pytest.fixture
def terminal(setting, request):
    """Return what makes a screen on which a live line may be shown."""
    pytest.importorskip("termios", reason="the system has no such terminals")
    from screen import Screen

    for name, value in ON_A_TERMINAL.items():
        setting(name, value)

    def call(**size):
        made = Screen(**size)
        request.addfinalizer(made.close)
        return made

    return call


@pytest.mark.parametrize(
    ("expected", "options", "environment"),
    [
        *((True, options, {}) for options in ((), ("-v",), ("-vv", "--capture=fd"), ("--pdb",))),
        *((False, (option,), {}) for option in ("-q", "-s", "--capture=sys", "--log-cli-level=INFO")),
        *((False, ("-o", "log_cli=true"), {}), (False, ("-p", "no:terminal"), {})),
        *((False, (), {name: "7"}) for name in ("CI", "BUILD_NUMBER", "JPY_PARENT_PID")),
        *((False, (), {"TERM": value}) for value in ("dumb", None)),
        *((False, (kind,), {}) for kind in ("a file", "another reporter")),
    ],
)
def test_a_line_is_live_where_somebody_watches_and_nobody_else_writes(
    pytester, setting, terminal, expected, options, environment
):
    for name, value in {**ON_A_TERMINAL, **environment}.items():
        setting(name, value)
    config = pytester.parseconfigure("-p", "logging", *(each for each in options if " " not in each))
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter and options != ("a file",):
        reporter._tw._file = terminal().file
    if options == ("another reporter",):
        reporter.__class__ = type("SugarTerminalReporter", (pytest.TerminalReporter,), {})
    assert expected == (live_line.of_run(config) is not None)


OURS = rb"\x1bD\x1b\[A\x1b7\r+\n\x1b\[K\x1b\[\?7l(.*?)\x1b\[\?7h\x1b8|\x1b\[J"


FULL = f"test_{38 * 'n'}"  # with the name of its file and what is between, as wide as a terminal may be
NAMES = f"""
    @pytest.mark.speedup
    def {FULL}(device): return work(device)

    @pytest.mark.speedup
    def test_{40 * "日"}(device): return work(device)
"""


@pytest.mark.parametrize(
    ("shown", "erased", "columns", "rows", "options"),
    [
        ("test_missed is measured, at most 10 s more", 5, 100, 12, []),
        ("test_missed is measured, at most 10 s more", 5, 100, 2, []),  # in the last row it scrolls
        ("test_...cted is measured, at most 9 s more", 5, 42, 12, ["-v"]),
        ("test...sed is measured, at ", 5, 27, 3, ["-v"]),
        ("test_日日日...日日日日日 is measured, at most 10 s more", 4, 56, 12, ["-v"]),  # none of FULL
        (None, 0, 100, 1, []),
        (None, 0, 100, 24, []),
    ],
)
def test_on_a_terminal_a_run_looks_in_the_end_as_if_nothing_had_been_shown_meanwhile(
    pytester, terminal, shown, erased, columns, rows, options
):
    screen = terminal(columns=columns, rows=rows)
    pytester.makepyfile(test_it=SUITE + NAMES)
    if rows != 24:  # else most tests end before anything is shown: simulated time takes none
        pytester.makeconftest("from pytest_gpuperf.session import live_line\nlive_line._INTERVAL = 0")
    command = [sys.executable, "-m", "pytest", "-p", "gpuperf", "--gpuperf-gpu=simulated", "--tb=short"]
    ran = subprocess.Popen([*command, *options], cwd=pytester.path, stdout=screen.file, stderr=screen.file)
    screen.read_to_the_end()
    assert pytest.ExitCode.TESTS_FAILED == ran.wait()
    found = [text.decode() for text in re.findall(OURS, screen.written)]
    assert shown is None or shown in found
    assert erased == found.count(""), "one for each test that was measured"
    assert screen.shows(re.sub(OURS, b"", screen.written)) == screen.shows(screen.written)
