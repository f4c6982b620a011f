"""The fixtures cpu, gpu, device and xp, and the skips where there is no GPU."""

import pytest
from cards import REAL

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
UNUSABLE = """
    from pytest_gpuperf.devices.simulated import SimulatedBackend

    BACKEND = SimulatedBackend(name="broken", unavailable="it is asleep; wake it up")

    def pytest_gpuperf_devices():
        return [BACKEND]

    def pytest_terminal_summary(terminalreporter):
        terminalreporter.write_line(f"probed {BACKEND.opened} times")
"""


def test_a_gpu_that_cannot_be_used_is_probed_at_most_once_and_its_tests_skip_with_cause_and_remedy(
    run, pytester
):
    pytester.makeconftest(UNUSABLE)
    asks_for_none = run("def test_host(cpu): pass\ndef test_plain(): pass\n", gpu="broken")
    asks_for_none.assert_outcomes(passed=2)
    asks_for_none.stdout.fnmatch_lines(["probed 0 times"])
    result = run(GPU_TEST + "\n    def test_again(gpu): pass\n" + SPEEDUP_TEST, "-rs", gpu="broken")
    result.assert_outcomes(passed=1, skipped=3)
    result.stdout.fnmatch_lines(["probed 1 times", "SKIPPED*: it is asleep; wake it up"])
    result.stdout.no_fnmatch_line("*NoGpu*")
    required = run(GPU_TEST + SPEEDUP_TEST, "--gpuperf-require-gpu", gpu="broken")
    required.assert_outcomes(passed=1, errors=2)
    said = "a GPU is required (--gpuperf-require-gpu): it is asleep; wake it up"
    required.stdout.fnmatch_lines([said, said, "test_fft*error"])


OFFERED = """
    import pytest
    from pytest_gpuperf.devices.simulated import SimulatedBackend

    def pytest_gpuperf_devices():
        print("ASKED")
        return {answer}
"""


def test_the_hook_is_called_once_and_what_it_may_not_return_ends_the_run_at_its_start(run, pytester):
    for options in ({}, {"gpu": None}):
        pytester.makeconftest(OFFERED.format(answer="[SimulatedBackend(name='cupy')]"))
        assert 1 == str(run(SPEEDUP_TEST + GPU_TEST, "-s", **options).stdout).count("ASKED")
        pytester.makeconftest(OFFERED.format(answer="3"))
        result = run(SPEEDUP_TEST, **options)
        assert pytest.ExitCode.USAGE_ERROR == result.ret
        result.stderr.fnmatch_lines(
            ["ERROR: pytest_gpuperf_devices (*conftest.py): 3 is no backend: it must be *"]
        )


def test_none_turns_the_gpu_off_and_a_speedup_test_times_the_cpu_alone(run):
    source = GPU_TEST + SPEEDUP_TEST
    source += """
    @pytest.mark.speedup(min=3)
    def test_wrong(xp):
        assert xp.ones(3).sum() == 4

    def test_halves(device): pass
    """
    result = run(source, "-rs", "--gpuperf-max-time=1", gpu="none")
    result.assert_outcomes(passed=2, skipped=3, failed=1)
    result.stdout.fnmatch_lines(["SKIPPED [[]1[]] test_*.py:*turned off by --gpuperf-gpu=none*"])
    result.stdout.re_match_lines(
        [
            r"test_fft\s+\d\S* [mun]s\s+(?:needs \d\S* [mun]s\s+)?>=3x\s+skipped",  # a busy CPU needs none
            "test_fft: the GPU is turned off.*",
            r"SKIPPED \[1\] test_it\.py:\d+: the GPU is turned off.*",
        ]
    )
    result.stdout.no_fnmatch_line("SKIPPED*session.py*")


BROKEN = """
    from pytest_gpuperf.devices.simulated import SimulatedBackend
    from pytest_gpuperf.model.errors import Unavailable

    class Broken(SimulatedBackend):
        def gpu(self, selector):
            raise Unavailable("it was found but cannot be used; repair it", broken=True)

    def pytest_gpuperf_devices():
        return [Broken(name="other")]
"""


def test_a_broken_gpu_is_an_error_of_a_run_that_names_it(run, pytester):
    pytester.makeconftest(BROKEN)
    result = run(GPU_TEST + SPEEDUP_TEST.replace("(min=3)", ""), gpu="other")
    result.assert_outcomes(passed=1, errors=1, failed=1)
    said = "the GPU of {} is broken: it was found but *; repair it"
    result.stdout.fnmatch_lines([said.format("--gpuperf-gpu=other")] * 2)
    result = run(GPU_TEST, "-o=gpuperf_gpu=other", gpu=None)
    result.stdout.fnmatch_lines([said.format("gpuperf_gpu = other in the ini file")])


def test_a_run_whose_speedup_tests_all_skip_themselves_has_used_no_required_gpu(suite):
    source = """
@pytest.mark.skip
@pytest.mark.speedup(min=2)
def test_skipped(device):
    return device.launch

def test_plain():
    pass
"""
    found = suite(source, "--gpuperf-require-gpu", conftest=REAL)
    found.ended(passed=1, skipped=1)
    assert pytest.ExitCode.TESTS_FAILED == found.result.ret
    found.says("FAILED: a GPU is required (--gpuperf-require-gpu), and none of 1 speedup test was measured")


SILENT = """
    from pytest_gpuperf.devices.simulated import SimulatedBackend

    class Silent(SimulatedBackend):
        is_emulation = None  # as in another plugin's backend, which says nothing before it is opened

    def pytest_gpuperf_devices():
        return [Silent(name="silent")]
"""


def test_where_a_gpu_is_required_an_emulated_one_is_an_error_of_each_test_at_the_latest(run, pytester):
    pytester.makeconftest(SILENT)
    result = run(GPU_TEST + SPEEDUP_TEST, "--gpuperf-require-gpu", gpu="silent")
    result.assert_outcomes(passed=1, errors=2)
    said = "a GPU is required (--gpuperf-require-gpu): simulated GPU only emulates a GPU"
    result.stdout.fnmatch_lines([said, said])


FIXTURES = """
import pytest

def test_scan(gpu):
    assert gpu.xp.cumsum(gpu.asarray([1, 2, 3]))[-1] == 6

def test_host(cpu):
    assert cpu.asarray([1, 2]).tolist() == [1, 2]

@pytest.mark.speedup(min=3)
def test_skips(xp):
    pytest.skip("not today")

def test_device(device):
    assert device.kind in ('cpu', 'gpu')

def test_xp(xp):
    assert xp.ones(3)[0] == 1

made = []

@pytest.fixture(scope="module")
def data(device):
    made.append(device.kind)
    return device.asarray([1.0, 2.0])

def test_one(data): assert data.sum() == 3
def test_two(data): assert data.size == 2
def test_made(): assert made == ["cpu", "gpu"]

def pytest_generate_tests(metafunc):
    if metafunc.function.__name__ == "test_generated":
        metafunc.parametrize("device", ["mine", "yours"])

def test_generated(device): assert device in ("mine", "yours")

@pytest.mark.parametrize("device", ["gpu"], indirect=True)
def test_indirect(device): assert device.kind == "gpu"

def test_by_value(request): request.getfixturevalue('device').asarray([1])

class TestExtended:
    @pytest.fixture
    def device(self, device):
        return device

    def test_plain(self, device):
        assert device.kind in ("cpu", "gpu")

    @pytest.mark.speedup(min=3)
    def test_fast(self, device):
        return lambda: device.launch()
"""


ODD = """
    from pytest_gpuperf.devices.simulated import SimulatedBackend, SimulatedDevice

    class Odd(SimulatedDevice):
        def fault(self, error):
            return 1 / 0

    BACKEND = SimulatedBackend(name="odd")
    BACKEND.gpu = lambda selector, device=Odd("gpu", clock=BACKEND.cpu().clock): device

    def pytest_gpuperf_devices():
        return [BACKEND]
"""


def test_devices_are_given_to_tests_and_fixtures_and_parametrize_what_is_unmarked(run, pytester):
    pytester.makeconftest(ODD)  # whose defect hides no test's own error
    result = run(FIXTURES, "-v", "-rs", "-Wdefault", gpu="odd")
    result.assert_outcomes(passed=18, skipped=1, failed=1)
    result.stdout.fnmatch_lines(["*request it as an argument of the test function*"])
    result.stdout.fnmatch_lines(["SKIPPED [[]1[]] test_it.py:11: not today"])
    for name in ("test_device", "test_xp", "TestExtended::test_plain", "TestExtended::test_fast"):
        result.stdout.fnmatch_lines_random([f"*{name}[[]{kind}] PASSED*" for kind in ("cpu", "gpu")])
    in_order = ("test_device[[]cpu]", "test_device[[]gpu]", "test_xp[[]cpu]")  # both runs of a test at a time
    result.stdout.fnmatch_lines([f"*{name} PASSED*" for name in in_order])
