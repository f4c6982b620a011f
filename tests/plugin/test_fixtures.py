"""The fixtures cpu, gpu, device and xp, and the skips where there is no GPU."""

import pytest

GPU_TEST = """
    def test_scan(gpu):
        assert gpu.xp.cumsum(gpu.asarray([1, 2, 3]))[-1] == 6

    def test_host(cpu):
        assert cpu.asarray([1, 2]).tolist() == [1, 2]
"""
SPEEDUP_TEST = """
    import pytest

    @pytest.mark.speedup(min=3)
    def test_fft(xp):
        xp.fft.fft(xp.ones(4096))
"""
COUNTED = """
    from pytest_gpuperf.devices.simulated import SimulatedBackend

    BACKEND = SimulatedBackend(name="{name}", unavailable={unavailable})

    def pytest_gpuperf_devices():
        return [BACKEND]

    def pytest_terminal_summary(terminalreporter):
        terminalreporter.write_line(f"probed {{BACKEND.opened}} times")
"""
UNUSABLE = COUNTED.format(name="broken", unavailable="'it is asleep; wake it up'")


def test_cpu_and_gpu_are_devices(run):
    run(GPU_TEST).assert_outcomes(passed=2)


def test_a_gpu_test_skips_with_cause_and_remedy(run, pytester):
    pytester.makeconftest(UNUSABLE)
    result = run(GPU_TEST, "-rs", gpu="broken")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*: it is asleep; wake it up"])
    result.stdout.no_fnmatch_line("*NoGpu*")


def test_none_turns_the_gpu_off(run):
    result = run(GPU_TEST, "-rs", gpu="none")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED [[]1[]] test_*.py:*turned off by --gpuperf-gpu=none*"])


def test_a_required_gpu_that_is_not_there_is_an_error(run, pytester):
    pytester.makeconftest(UNUSABLE)
    result = run(GPU_TEST, "--gpuperf-require-gpu", gpu="broken")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["a GPU is required (--gpuperf-require-gpu): it is asleep; wake it up"])


BROKEN = """
    from pytest_gpuperf.devices.simulated import SimulatedBackend
    from pytest_gpuperf.model.errors import Unavailable

    class Broken(SimulatedBackend):
        automatic = True

        def gpu(self, selector):
            raise Unavailable("it was found but cannot be used; repair it", broken=True)

    def pytest_gpuperf_devices():
        return [Broken(name="other")]
"""


@pytest.mark.parametrize(
    ("outcomes", "source"),
    [({"passed": 1, "errors": 1}, GPU_TEST), ({"failed": 1}, SPEEDUP_TEST.replace("(min=3)", ""))],
    ids=["fixture", "measured"],
)
def test_a_broken_gpu_is_an_error_of_a_run_that_names_it(run, pytester, outcomes, source):
    pytester.makeconftest(BROKEN)
    result = run(source, gpu="other")
    result.assert_outcomes(**outcomes)
    result.stdout.fnmatch_lines(["the GPU of --gpuperf-gpu=other is broken: it was found but *; repair it"])


@pytest.mark.libraries
@pytest.mark.parametrize(
    ("outcomes", "source"),
    [
        ({"passed": 1, "skipped": 2}, f"{GPU_TEST}\n    def test_again(gpu): pass\n"),
        ({"skipped": 1}, SPEEDUP_TEST),
    ],
    ids=["fixture", "measured"],
)
def test_a_broken_gpu_that_auto_finds_is_a_warning_once_and_a_skip(run, pytester, outcomes, source):
    pytester.makeconftest(BROKEN)
    result = run(source, "-Walways", gpu="auto")
    result.assert_outcomes(**outcomes, warnings=1)
    result.stdout.fnmatch_lines(["*BrokenGpuWarning: *it was found but cannot be used; repair it*"])


def test_a_speedup_test_without_gpu_times_the_cpu_and_skips(run):
    result = run(SPEEDUP_TEST, "-rs", gpu="none")
    result.assert_outcomes(skipped=1)
    result.stdout.re_match_lines(
        [
            r"test_fft\s+\d\S* [mun]s\s+(?:needs \d\S* [mun]s\s+)?>=3x\s+skipped",  # a busy CPU needs none
            "test_fft: the GPU is turned off.*",
            r"SKIPPED \[1\] test_it\.py:3: the GPU is turned off.*",
        ]
    )


def test_a_skip_of_the_test_itself_stays_where_it_is(run):
    source = SPEEDUP_TEST.replace("xp.fft.fft(xp.ones(4096))", "pytest.skip('not today')")
    result = run(source, "-rs")
    result.stdout.fnmatch_lines(["SKIPPED [[]1[]] test_it.py:5: not today"])


def test_a_body_that_fails_on_the_cpu_fails_without_a_gpu_too(run):
    result = run(
        """
        import pytest

        @pytest.mark.speedup(min=3)
        def test_wrong(xp):
            assert xp.ones(3).sum() == 4
        """,
        gpu="none",
    )
    result.assert_outcomes(failed=1)


def test_a_required_gpu_makes_speedup_tests_errors(run):
    result = run(SPEEDUP_TEST, "--gpuperf-require-gpu", gpu="none")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*a GPU is required*turned off*", "test_fft*error"])


@pytest.mark.parametrize("mark", ["skipif(True, reason='no GPU')", "skip"])
@pytest.mark.parametrize("limit", ["", "(min=2)"])
def test_a_run_whose_speedup_tests_all_skip_themselves_has_used_no_required_gpu(run, mark, limit):
    source = f"""
        import pytest

        @pytest.mark.{mark}
        @pytest.mark.speedup{limit}
        def test_skipped(device):
            return lambda: device.launch()

        def test_plain():
            pass
    """
    assert pytest.ExitCode.OK == run(source).ret
    result = run(source, "--gpuperf-require-gpu")
    result.assert_outcomes(passed=1, skipped=1)
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(
        ["FAILED: a GPU is required *, and none of 1 speedup test was measured on one; *"]
    )
    assert pytest.ExitCode.OK == run(source, "--gpuperf-require-gpu", "-k", "plain").ret
    measured = (
        source + "    @pytest.mark.speedup\n        def test_more(device): return lambda: device.launch()\n"
    )
    assert pytest.ExitCode.OK == run(measured, "--gpuperf-require-gpu").ret


def test_the_gpu_is_probed_once_for_all_tests(run, pytester):
    pytester.makeconftest(UNUSABLE)
    source = GPU_TEST + "\n    def test_again(gpu): pass\n" + SPEEDUP_TEST
    result = run(source, gpu="broken")
    result.assert_outcomes(passed=1, skipped=3)
    result.stdout.fnmatch_lines(["probed 1 times"])


def test_tests_that_ask_for_no_gpu_never_probe(run, pytester):
    pytester.makeconftest(COUNTED.format(name="mine", unavailable=None))
    result = run("def test_host(cpu): pass\ndef test_plain(): pass\n", gpu="mine")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["probed 0 times"])


@pytest.mark.parametrize(
    ("name", "holds"), [("device", "device.kind in ('cpu', 'gpu')"), ("xp", "xp.ones(3)[0] == 1")]
)
def test_device_and_xp_parametrize_an_unmarked_test(run, name, holds):
    result = run(f"def test_it({name}): assert {holds}", "-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*test_it[[]cpu] PASSED*", "*test_it[[]gpu] PASSED*"])


def test_the_gpu_half_of_an_unmarked_test_skips_without_gpu(run):
    run("def test_it(device): pass", gpu="none").assert_outcomes(passed=1, skipped=1)


def test_a_module_scoped_fixture_may_build_on_device(run):
    result = run(
        """
        import pytest

        made = []

        @pytest.fixture(scope="module")
        def data(device):
            made.append(device.kind)
            return device.asarray([1.0, 2.0])

        def test_one(data): assert data.sum() == 3
        def test_two(data): assert data.size == 2
        def test_made(): assert made == ["cpu", "gpu"]
        """
    )
    result.assert_outcomes(passed=5)


OURS = ("cpu", "gpu", "device", "xp")
OWN = {
    "fixture": "@pytest.fixture\ndef {0}(): return 'mine'\n",
    "parametrized": "@pytest.fixture(params=['mine', 'mine'])\ndef {0}(request): return request.param\n",
    "parameter": "@pytest.mark.parametrize('{0}', ['mine'])\n",
}


def test_a_suites_own_fixture_or_parameter_of_the_same_name_wins(run, pytester):
    test = "def test_it({0}): assert {0} == 'mine'\n"
    files = {
        f"test_{what}_{name}": "import pytest\n" + (own + test).format(name)
        for what, own in OWN.items()
        for name in OURS
    }
    pytester.makepyfile(**files)
    result = run("", "-Werror", "-v", gpu=None)
    result.assert_outcomes(passed=len(OURS) * (1 + 2 + 1))
    for file in files:
        result.stdout.fnmatch_lines([f"{file}.py::test_it* PASSED*"])


def test_a_conftest_that_parametrizes_device_itself_wins(run, pytester):
    pytester.makeconftest(
        """
        def pytest_generate_tests(metafunc):
            if "device" in metafunc.fixturenames:
                metafunc.parametrize("device", ["mine", "yours"])
        """
    )
    run("def test_it(device): assert device in ('mine', 'yours')", gpu=None).assert_outcomes(passed=2)


def test_device_by_getfixturevalue_says_what_to_do(run):
    result = run("def test_it(request): request.getfixturevalue('device').asarray([1])")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*request it as an argument of the test function*"])


def test_a_suites_fixture_that_extends_device_runs_on_both(run):
    source = """
        import pytest

        @pytest.fixture
        def device(device):
            return device

        def test_plain(device):
            assert device.kind in ("cpu", "gpu")

        @pytest.mark.speedup(min=3)
        def test_fast(device):
            return lambda: device.launch()
        """
    run(source).assert_outcomes(passed=4)


def test_a_lost_gpu_fails_tests_parametrized_over_devices_too(run, pytester):
    pytester.makeconftest(
        """
        from pytest_gpuperf.devices.simulated import Injected, SimulatedBackend

        def pytest_gpuperf_devices():
            return [SimulatedBackend(name="faulty", faults=[Injected(kind="lost", call=1)])]
        """
    )
    result = run("def test_it(device): device.launch()\ndef test_silent(device): pass\n", gpu="faulty")
    result.assert_outcomes(passed=2, failed=1, errors=1)


def test_a_backend_that_breaks_does_not_stop_the_run(run, pytester):
    pytester.makeconftest(
        """
        from pytest_gpuperf.devices.simulated import SimulatedBackend

        BACKEND = SimulatedBackend(name="odd")
        BACKEND.gpu("").fault = lambda error: 1 / 0

        def pytest_gpuperf_devices():
            return [BACKEND]
        """
    )
    result = run("def test_a(gpu): assert 0\ndef test_b(gpu): pass\n", gpu="odd")
    result.assert_outcomes(passed=1, failed=1)
