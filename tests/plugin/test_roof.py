"""How good is it, as a user asks: the speedup taken apart, and limits on the share of the GPU's roof."""

import json

import pytest
from figures import figures

CONFTEST = """
import pytest
from pytest_gpuperf.devices.simulated import SimulatedBackend, Timing

@pytest.hookimpl(optionalhook=True)
def pytest_gpuperf_devices():
    # A call of test_it moves 16 kB: copies of as many take 1 ms and 0.5 ms.
    cpu = Timing(kernel=10e-3, memory_bandwidth=1.6e7)
    gpu = Timing(kernel=1e-3, memory_bandwidth=3.2e7)
    return [SimulatedBackend(cpu=cpu, gpu=gpu)]
"""
SOURCE = """
import numpy as np, pytest

@pytest.mark.speedup({})
def test_it(device):
    a = device.asarray(np.ones(1000))
    return lambda: a + a
"""
APART = "10.0x = 2.00x (the emulated device's roof over the CPU's) x 5.00x (the emulated device code is at"


@pytest.fixture
def suite(run, pytester):
    """Run a suite, with a JSON report, on simulated devices of known memory bandwidth."""

    def call(source, *options):
        pytester.makeconftest(CONFTEST)
        return run(source, "--gpuperf-json=report.json", *options, gpu="simulated")

    return call


@pytest.fixture
def records(pytester):
    return lambda: json.loads((pytester.path / "report.json").read_text())["records"]


def one_line(result):
    return " ".join(result.stdout.str().split())


def test_v_takes_the_speedup_apart(suite):
    assert APART in one_line(suite(SOURCE.format(""), "-v"))


@pytest.mark.parametrize("output", ["html", "markdown"])
def test_the_page_and_markdown_take_the_speedup_apart(suite, pytester, output):
    suite(SOURCE.format("min=3"), f"--gpuperf-{output}=shown")
    shown = (pytester.path / "shown").read_text().replace("&#39;", "'").replace("&#x27;", "'")
    assert APART in " ".join(shown.split())


def test_the_page_draws_the_times_of_three_sizes_over_their_bytes(suite, pytester):
    sizes = '@pytest.mark.parametrize("n", [1000, 2000, 4000])\n@pytest.mark.speedup'
    source = SOURCE.replace("@pytest.mark.speedup({})", sizes).replace("device)", "device, n)", 1)
    suite(source.replace("np.ones(1000)", "np.ones(n)"), "--gpuperf-html=shown")
    (figure,) = figures((pytester.path / "shown").read_text(), "roofs")
    assert figure.finding.startswith("Time over bytes: 3 tests, 16.0 kB to 64.0 kB; the CPU's calls are at ")


def test_v_says_why_a_speedup_is_not_taken_apart(suite):
    body = """
import pytest

@pytest.mark.speedup
def test_it(device):
    device.xp.ones(1000).sum()
"""
    assert "not taken apart: which bytes the call moves is not known" in one_line(suite(body, "-v"))
    assert "not taken apart" not in one_line(suite(body))


def test_a_run_that_does_not_show_it_times_no_copy_and_says_how_to_ask(suite, records):
    assert "= 2.00x (" not in one_line(suite(SOURCE.format("")))
    (record,) = records()
    assert record["roof"]["gpu"] == {
        "bytes": 16_000,
        "bandwidth": pytest.approx(1.6e7),
        "copy_time": None,
        "bandwidth_limited": False,
        "share": None,
        "cache_resident": False,
    }
    assert "no copy was timed" in record["roof"]["reason"]


def test_a_limit_on_the_share_fails_a_test_whose_gpu_is_far_from_its_roof(suite, records):
    result = suite(SOURCE.format("min_share=0.9"))
    result.assert_outcomes(failed=1)
    assert records()[0]["reason_code"] == "share_below_limit"
    assert "at least 90 % of the emulated device's roof (16.0 kB in 500 us), found 50.0 %" in one_line(result)
    suite(SOURCE.format("min_share=0.4, min=3")).assert_outcomes(passed=1)


def test_more_bytes_than_a_call_can_move_are_an_error(suite):
    result = suite(SOURCE.format("min=3, bytes='2 MB'"))
    result.assert_outcomes(failed=1)
    assert "that moves the 2.00 MB that bytes= says, which no code can be" in one_line(result)


@pytest.mark.parametrize(
    "argument", ["bytes=0", "bytes=-8", "min_share=0", "min_share=1.5", "min_share='half'"]
)
def test_a_wrong_argument_is_an_error_of_the_test(suite, argument):
    result = suite(SOURCE.format(argument))
    assert f"{argument.partition('=')[0]} must be a number" in one_line(result)
    result.assert_outcomes(errors=1)


def test_a_gpu_variant_is_held_against_the_roof_that_its_cpu_variant_found(suite, records):
    suite(
        """
        import numpy as np, pytest

        @pytest.fixture
        def a(device):
            return device.asarray(np.ones(1000))

        @pytest.mark.speedup
        def test_it(a):
            return lambda: a + a
        """,
        "-v",
    )
    on_cpu, on_gpu = (record["roof"] for record in records())
    assert on_cpu["gpu"] is None
    assert on_gpu["cpu"] == on_cpu["cpu"]
    assert on_gpu["cpu"]["share"]["value"] == pytest.approx(0.1)
    assert on_gpu["gpu"]["share"]["value"] == pytest.approx(0.5)


def test_a_scaling_test_has_no_roof(suite, records):
    suite(
        """
        import numpy as np, pytest

        @pytest.mark.scaling([1, 2])
        def test_it(devices):
            a = devices.asarray(np.ones(1000), shard=0)
            return lambda: [part + part for part in a]
        """,
        "-v",
    )
    assert [None, None] == [record["roof"] for record in records()]
