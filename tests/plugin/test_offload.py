"""Is it worth it, as a user asks: transfers, latency, memory, the price and thresholds through pytest."""

import json

import pytest

CONFTEST = """
import pytest
from pytest_gpuperf.devices.simulated import SimulatedBackend, Timing

@pytest.hookimpl(optionalhook=True)
def pytest_gpuperf_devices():
    return [SimulatedBackend(cpu=Timing({cpu}), gpu=Timing({gpu}), unavailable={unavailable!r})]
"""


@pytest.fixture
def suite(run, pytester):
    """Run a suite on simulated devices with these timings; the report is written beside it."""

    def call(source, *options, cpu="kernel=10e-3", gpu="kernel=1e-3", on="simulated"):
        unavailable = None if on else "no GPU is here"
        pytester.makeconftest(CONFTEST.format(cpu=cpu, gpu=gpu, unavailable=unavailable))
        always = ("--gpuperf-json=report.json", "-Walways::pytest_gpuperf.InconclusiveWarning")
        return run("import numpy as np, pytest\n" + source, *always, *options, gpu="simulated")

    return call


@pytest.fixture
def report(pytester):
    return lambda: json.loads((pytester.path / "report.json").read_text())


def of(marker, size=1000):
    """Return a test that uploads `size` doubles and returns as many."""
    return f"""
@pytest.mark.speedup({marker})
def test_it(device):
    a = device.asarray(np.ones({size}))
    return lambda: a + a
"""


@pytest.fixture
def statuses(suite, report):
    """Run such a test for each marker in one suite; return how they ended, by their markers."""

    def call(*markers, **timings):
        sources = [of(marker).replace("test_it", f"test_{index}") for index, marker in enumerate(markers)]
        result = suite("".join(sources), **timings)
        ended = [record["status"] for record in report()["records"]]
        result.assert_outcomes(passed=ended.count("passed"), failed=ended.count("failed"))
        return dict(zip(markers, ended, strict=True))

    return call


SLOW_LINK = "kernel=1e-3, bandwidth=1e6"  # 8 ms up and 8 ms down for a thousand doubles


def test_the_gate_is_on_the_regime_that_was_asked_for(statuses):
    expected = {
        "min=9": "passed",
        "min=9, transfer='always'": "failed",
        "max=1, transfer='always'": "passed",
        "min=9, transfer='once', calls=10": "failed",
        "min=3, transfer='once', calls=10": "passed",
        "min=9, transfer='once', calls=1000": "passed",
    }
    assert expected == statuses(*expected, gpu=SLOW_LINK)


def test_the_record_has_every_regime_whatever_the_gate(suite, report):
    suite(of("min=1, transfer='once', calls=16"), gpu=SLOW_LINK)
    record = report()["records"][0]
    offload = record["offload"]
    assert pytest.approx([10, 5, 10 / 17]) == [offload[name]["value"] for name in ("never", "once", "always")]
    assert [8000, 8000] == [record["transfer"][way]["bytes"] for way in ("h2d", "d2h")]
    assert offload["break_even_calls"]["transfer"]["value"] == 2


def test_a_whole_body_has_no_regime_but_its_own_and_copies_of_it_gate_nothing_else(suite, report):
    source = "@pytest.mark.speedup(min=1)\ndef test_it(xp):\n    return xp.ones(3)\n"
    suite(source).assert_outcomes(passed=1)
    record = report()["records"][0]
    assert ("body", None) == (record["offload"]["regime"], record["transfer"]["h2d"])
    assert "return a callable" in record["transfer"]["reason"]
    result = suite(source.replace("min=1", "min=1, transfer='always'"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*transfer='always' has no effect here*return a callable*"])
    assert report()["records"][0]["status"] == "error"


def test_a_workload_without_copies_says_that_the_regimes_are_equal(suite, report):
    source = "@pytest.mark.speedup(min=1)\ndef test_it(device):\n    a = device.xp.ones(3)\n"
    suite(source + "    return lambda: float((a + a)[0])\n")
    record = report()["records"][0]
    assert record["transfer"]["reason"].startswith("nothing is transferred")
    assert record["offload"]["always"]["value"] == record["offload"]["never"]["value"]


def test_a_gate_on_latency_sees_what_a_block_hides(statuses, report):
    gpu = "kernel=10e-6, synchronize=200e-6"
    expected = {"min=9": "passed", "min=9, latency=True": "failed"}
    assert expected == statuses(*expected, cpu="kernel=100e-6", gpu=gpu)
    for record, by_latency in zip(report()["records"], (False, True), strict=True):
        assert record["offload"]["by_latency"] == by_latency
        assert record["offload"]["latency"]["value"] < 1 < record["cpu"]["latency"] / record["gpu"]["median"]


def test_memory_is_a_second_gate_and_one_alone_too(statuses):
    expected = {
        "min=3, max_memory='16kB'": "passed",
        "min=3, max_memory='15.9kB'": "failed",
        "min=3, max_memory=1 << 20": "passed",
        "max_memory='1kB'": "failed",
        "max_memory='1MB'": "passed",
    }
    assert expected == statuses(*expected)


def test_both_gates_say_why_they_failed(suite, report):
    suite(of("min=100, max_memory=1"))
    reason = report()["records"][0]["reason"]
    assert "[10.0, 10.0]; the workload holds 16.0 kB on the device, max_memory is 1 B" in reason


def test_a_result_that_holds_no_values_yet_is_an_error_that_names_its_type(suite):
    source = "@pytest.mark.speedup(min=1)\ndef test_it(xp):\n    return (i for i in range(3))\n"
    result = suite(source)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*result is of type generator, which is lazy: its work would run after*"])


def test_worth_it_means_faster_than_the_cost_ratio_of_the_command_line_or_the_ini_file(
    suite, report, pytester
):
    suite(of("min=3"), "--gpuperf-cost-ratio=4")
    assert report()["records"][0]["offload"]["reason"].startswith("worth it at 4 times the price: 10.0x")
    pytester.makeini("[pytest]\ngpuperf_cost_ratio = 25")
    result = suite(of("min=3"), "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["test_it: not worth it at 25 times the price: 10.0x *"])
    offload = report()["records"][0]["offload"]
    assert (False, True) == (offload["worth"], offload["faster"])


def test_what_pays_and_passes_is_shown_in_the_table_alone(suite, report):
    shown = str(suite(of("min=3")).stdout)
    record = report()["records"][0]
    assert "test_it: " not in shown
    assert "price" not in record["offload"]["reason"] + shown
    # Its inputs, and what a call adds.
    assert {"peak": 16_000, "inputs": 8_000, "reason": None} == record["memory"]


def test_without_a_gpu_the_table_says_what_one_must_reach(suite, report):
    result = suite(of("min=4", size=4), on=None)
    result.assert_outcomes(skipped=1)
    record = report()["records"][0]
    assert record["offload"] is None
    assert [32, 32] == [record["transfer"][way]["bytes"] for way in ("h2d", "d2h")]
    result.stdout.fnmatch_lines(["test_it * needs 2.50 ms * skipped"])


def test_what_holds_a_speedup_back_is_shown_where_it_does_not_pay(suite, report):
    source = of("min=3, transfer='always'")
    result = suite(source, gpu=SLOW_LINK)
    assert "transfer_bound" in [found["code"] for found in report()["records"][0]["diagnosis"]]
    rest = "* more note*: pytest -v"
    result.stdout.fnmatch_lines(["test_it: transfer-bound: *", "*keep the data on the device and*", rest])
    whole = suite(source, "-v", gpu=SLOW_LINK).stdout
    whole.no_fnmatch_line(rest)
    whole.fnmatch_lines(["test_it: not worth it: *"])


SIZE_GROUP = """
@pytest.mark.offload_threshold("n"{limits})
@pytest.mark.parametrize("n", {sizes})
@pytest.mark.speedup{speedup}
def test_add(device, n):
    a = device.xp.ones(n)
    return lambda: a + a
"""
DOUBT_FAILS = "--gpuperf-fail=doubt"
# The GPU takes 1 ms, the CPU 1 us for each number: the GPU wins from a thousand numbers on.
BY_SIZE = {"cpu": "kernel=0, per_element=1e-6", "gpu": "kernel=1e-3"}


def size_group(limits="", sizes="[100, 500, 2000, 10_000]", speedup="(min=1e-9)"):
    return SIZE_GROUP.format(limits=limits, sizes=sizes, speedup=speedup)


def test_the_threshold_lies_between_the_last_size_lost_and_the_first_won(suite, report):
    suite(size_group(), **BY_SIZE).assert_outcomes(passed=4)
    (found,) = report()["thresholds"]
    assert ("bracket", 500, 2000) == (found["outcome"], found["largest_not_won"], found["smallest_won"])
    assert [100, 500, 2000, 10_000] == [point["size"] for point in found["curve"]]
    assert [0.1, 0.5, 2, 10] == [pytest.approx(point["speedup"]["value"]) for point in found["curve"]]
    assert found["status"] == "recorded"


def ended(report):
    """Return the statuses of thresholds by the tests that they are of."""
    return {found["name"].rpartition("::")[2]: found["status"] for found in report()["thresholds"]}


def test_a_threshold_beyond_its_limits_fails_the_last_of_its_size_group(suite, report):
    limits = {
        "test_below": (", at_most=2000", "passed"),
        "test_not_below": (", at_most=500", "failed"),
        "test_above": (", at_least=2000", "passed"),
        "test_not_above": (", at_least=3000", "failed"),
    }
    source = "".join(size_group(limit).replace("test_add", name) for name, (limit, _) in limits.items())
    result = suite(source, "-v", **BY_SIZE)
    result.assert_outcomes(passed=14, failed=2)
    assert {name: status for name, (_, status) in limits.items()} == ended(report)
    result.stdout.fnmatch_lines(
        [
            "*test_not_below[[]10000] FAILED*",
            "*test_not_above[[]10000] FAILED*",
            "*offload threshold of n: required at most 500*",
            "*offload threshold of n: required at least 3000*",
        ]
    )


def test_the_last_to_run_tells_the_verdict_whatever_the_order(suite):
    result = suite(size_group(", at_most=500", sizes="[10_000, 2000, 100, 500]"), "-v", **BY_SIZE)
    result.stdout.fnmatch_lines(["*test_add[[]500] FAILED*"])


def test_a_size_group_that_was_selected_in_part_is_in_doubt_and_says_which_sizes_are_missing(suite, report):
    result = suite(size_group(", at_most=500"), "-k", "not 500", **BY_SIZE)
    result.assert_outcomes(passed=3, deselected=1, warnings=1)
    result.stdout.fnmatch_lines(["*InconclusiveWarning: *no speedup at n=500 (not run); run all sizes*"])
    assert report()["thresholds"][0]["status"] == "inconclusive"


LAST = {
    "in the test": ("10_000", "if n > 5000: pytest.skip('too large')", {"skipped": 1}),
    "by a mark": ("pytest.param(10_000, marks=pytest.mark.skip)", "pass", {"skipped": 1}),
    "expected": ("pytest.param(10_000, marks=pytest.mark.xfail)", "if n > 5000: 1 / 0", {"xfailed": 1}),
}


@pytest.mark.parametrize(("last", "first_line", "outcome"), LAST.values(), ids=LAST)
def test_a_size_group_whose_last_test_did_not_run_is_in_doubt_too(suite, report, last, first_line, outcome):
    source = size_group(", at_most=2000", sizes=f"[100, 500, 2000, {last}]").replace(
        "    a =", f"    {first_line}\n    a ="
    )
    result = suite(source, **BY_SIZE)
    result.assert_outcomes(passed=3, **outcome)
    result.stdout.fnmatch_lines(["threshold of test_it.py::test_add: inconclusive: *"])
    assert report()["thresholds"][0]["status"] == "inconclusive"
    assert result.ret == pytest.ExitCode.OK
    doubtful = suite(source, DOUBT_FAILS, **BY_SIZE)
    assert doubtful.ret == pytest.ExitCode.TESTS_FAILED
    doubtful.stdout.fnmatch_lines(["FAILED: test_it.py::test_add: *at n=10000 (*"])


def test_a_size_that_was_not_even_named_is_missing_too(suite, report, pytester):
    suite(size_group(), "--collect-only", **BY_SIZE)
    suite(size_group(", at_most=500"), "test_it.py::test_add[100]", **BY_SIZE).assert_outcomes(
        passed=1, warnings=1
    )
    assert report()["thresholds"][0]["outcome"] is None


@pytest.mark.parametrize(
    ("outcomes", "limits", "options"),
    [
        ({"passed": 2, "failed": 1, "deselected": 1}, ", at_most=500", ("-k", "not 500", DOUBT_FAILS)),
        ({"passed": 3, "deselected": 1}, "", ("-k", "not 500", DOUBT_FAILS)),
        ({"passed": 4}, ", at_most=500", ("--gpuperf-fail=nothing",)),
    ],
    ids=["doubt is to fail", "nothing is asked", "report only"],
)
def test_a_threshold_fails_only_what_is_asked_of_it(suite, outcomes, limits, options):
    suite(size_group(limits), *options, **BY_SIZE).assert_outcomes(**outcomes)


@pytest.mark.parametrize(("mark", "gpu"), [("", None), ("@pytest.mark.skip", "simulated")])
def test_a_threshold_is_skipped_with_its_tests(suite, report, mark, gpu):
    suite(mark + size_group(", at_most=500"), on=gpu).assert_outcomes(skipped=4)
    assert "skipped" == report()["thresholds"][0]["status"]


def test_other_parameters_make_other_size_groups(suite, report):
    source = size_group(", at_most=2000").replace("(device, n)", "(device, n, kind)")
    source = source.replace(
        "@pytest.mark.speedup", "@pytest.mark.parametrize('kind', [int, 'x'])\n@pytest.mark.speedup"
    )
    suite(source, **BY_SIZE).assert_outcomes(passed=8)
    names = sorted(found["name"] for found in report()["thresholds"])
    assert ["test_it.py::test_add[kind=int]", "test_it.py::test_add[kind=x]"] == names


VARIANTS = """
@pytest.fixture
def values(device):
    return device.xp.ones(4)

@pytest.mark.offload_threshold("n", at_most=500)
@pytest.mark.parametrize("n", [500, 2000])
@pytest.mark.speedup
def test_add(values, xp, n):
    a = xp.ones(n)
    return lambda: a + a
"""


def test_variants_have_one_threshold(suite, report):
    limits = VARIANTS.replace("at_most=500", "at_most=2000").replace("speedup", "speedup(min=1e-9)")
    suite(limits, **BY_SIZE).assert_outcomes(passed=4)
    (found,) = report()["thresholds"]
    assert ("passed", 500, 2000) == (found["status"], found["largest_not_won"], found["smallest_won"])


@pytest.mark.usefixtures("forked_workers")
def test_in_workers_a_threshold_that_none_could_tell_fails_the_run_and_one_that_holds_does_not(suite, report):
    holds = size_group(", at_most=2000").replace("test_add", "test_holds")
    result = suite(size_group(", at_most=500") + holds, "-n2", "--dist=load", **BY_SIZE)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*offload threshold of n: required at most 500*"])
    result.stdout.no_fnmatch_line("*required at most 2000*")
    assert {"test_add": "failed", "test_holds": "passed"} == ended(report)


NO_SENSE = [
    ("needs a speedup test", size_group().replace("@pytest.mark.speedup(min=1e-9)\n", "")),
    ("the test has no parameter 'size'; its parameters: n", size_group().replace('d("n"', 'd("size"')),
    ("n='small' is not a size", size_group(sizes="['small', 'large']")),
    ("n=nan is not a size", size_group(sizes="[1, float('nan')]")),
    ("'n' needs at least two sizes", size_group(sizes="[5]")),
    ("'n' has the same size twice: 5, 5", size_group(sizes="[5, 5]")),
    ("has no argument 'most'", size_group(", most=5")),
    ("at_most must be a finite number, not 'big'", size_group(", at_most='big'")),
    ("at_least must not be above at_most", size_group(", at_least=3000, at_most=2000")),
    ("at_most=5 is below the smallest size, 100", size_group(", at_most=5")),
    ("at_least=100 is not above the smallest size, 100", size_group(", at_least=100")),
    (
        "parameter must be the name of the parameter that",
        size_group().replace('threshold("n"', "threshold(5"),
    ),
]


def test_a_threshold_that_makes_no_sense_is_an_error_of_its_test(marker_errors):
    said = marker_errors(*(f"import pytest\n{source}" for _, source in NO_SENSE))
    for (expected, _), found in zip(NO_SENSE, said, strict=True):
        assert f"@pytest.mark.offload_threshold: {expected}" in found


def test_diagnoses_know_the_processors_of_a_real_cpu(run, pytester, monkeypatch):
    monkeypatch.setattr("pytest_gpuperf.devices.environment.usable_processors", lambda: 64.0)
    pytester.makeconftest(
        """
import pytest
from msgspec.structs import replace
from pytest_gpuperf.devices.host import HostDevice
from pytest_gpuperf.devices.simulated import SimulatedBackend

class Gpu(HostDevice):
    kind = "gpu"

class Backend(SimulatedBackend):
    def cpu(self):
        return HostDevice("a processor")

    def gpu(self, selector):
        gpu = Gpu("no GPU")
        gpu.info = replace(gpu.info, kind="gpu")
        return gpu

@pytest.hookimpl(optionalhook=True)
def pytest_gpuperf_devices():
    return [Backend()]
"""
    )
    source = "import pytest\n@pytest.mark.speedup\ndef test_it(xp):\n    return xp.sort(xp.ones(1000))\n"
    run(source, "--gpuperf-json=report.json", "--gpuperf-max-time=2")
    record = json.loads((pytester.path / "report.json").read_text())["records"][0]
    (found,) = [each for each in record["diagnosis"] if each["code"] == "cpu_threads"]
    assert "of 64 usable processors" in found["sentence"]


CLASS = """
@pytest.mark.offload_threshold("n", at_most=500)
class TestAdd:
    @pytest.mark.parametrize("n", [100, 500, 2000])
    @pytest.mark.speedup(min=1e-9)
    def test_add(self, device, n):
        a = device.xp.ones(n)
        return lambda: a + a
"""
MODULE = "pytestmark = pytest.mark.offload_threshold('n', at_most=500)\n" + size_group()


def test_a_threshold_on_a_class_or_a_module_counts_for_its_tests(suite, report, pytester):
    pytester.makepyfile(test_class=f"import pytest\n{CLASS}")
    module = MODULE.replace('@pytest.mark.offload_threshold("n")\n', "")
    suite(module, **BY_SIZE).assert_outcomes(passed=5, failed=2)
    assert {"test_add": "failed", "TestAdd::test_add": "failed"} == {
        found["name"].partition("::")[2]: found["status"] for found in report()["thresholds"]
    }


def test_a_threshold_that_is_marked_late_counts_too(suite, pytester):
    pytester.syspathinsert()
    pytester.makepyfile(
        late="""
import pytest

def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.speedup(min=1e-9))
        item.add_marker(pytest.mark.offload_threshold("n", at_most=500))
"""
    )
    source = (
        size_group()
        .replace('@pytest.mark.offload_threshold("n")\n', "")
        .replace("@pytest.mark.speedup(min=1e-9)\n", "")
    )
    suite(source, "-p", "late", **BY_SIZE).assert_outcomes(passed=7, failed=1)  # both variants of each size


def test_two_thresholds_on_one_test_are_an_error_and_none_is_dropped(suite):
    result = suite('@pytest.mark.offload_threshold("n", at_most=1)\n' + size_group())
    assert {"errors"} == {*result.parseoutcomes()} - {"passed"}
    result.stdout.fnmatch_lines(["*2 offload_threshold markers found; *keep one*"])


def test_a_threshold_that_failed_fails_again_when_it_is_rerun(suite):
    result = suite(VARIANTS, "--reruns=1", **BY_SIZE)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert result.parseoutcomes()["failed"] == 1


def test_cpu_variants_alone_tell_no_threshold(suite):
    result = suite(VARIANTS, "-k", "cpu", DOUBT_FAILS, **BY_SIZE)
    assert result.parseoutcomes().get("failed", 0) == 0


def test_size_groups_that_a_word_does_not_tell_apart_are_two_all_the_same(suite, report):
    source = """
@pytest.mark.offload_threshold("n", at_most=500)
@pytest.mark.parametrize("n", [100, 500])
@pytest.mark.parametrize("op", [lambda a: a + a, lambda a: a])
@pytest.mark.speedup(min=1e-9)
def test_add(device, n, op):
    a = device.xp.ones(n)
    return lambda: op(a + a)
"""
    suite(source, **BY_SIZE)
    names = sorted(found["name"] for found in report()["thresholds"])
    assert names == ["test_it.py::test_add[op=<lambda>]", "test_it.py::test_add[op=<lambda>] #2"]


SKIPS = "    if n == {size}:\n        pytest.skip('not today')\n"


def skipping(name, size, limits):
    source = size_group(limits).replace("(device, n):\n", "(device, n):\n" + SKIPS.format(size=size))
    return source.replace("test_add", name)


def test_without_a_skipped_size_what_is_certain_is_told_and_what_hangs_on_it_is_in_doubt(suite, report):
    source = (
        skipping("test_certain_failure", 100, ", at_most=500")
        + skipping("test_certain", 100, ", at_most=2000")
        + skipping("test_in_doubt", 2000, ", at_most=2000")
    )
    suite(source, **BY_SIZE).assert_outcomes(passed=8, skipped=3, failed=1, warnings=1)
    assert {
        "test_certain_failure": "failed",
        "test_certain": "passed",
        "test_in_doubt": "inconclusive",
    } == ended(report)


def test_a_throttled_gpu_fails_no_test_that_demands_no_speedup(suite, pytester, run):
    pytester.makeconftest(
        """
import pytest
from pytest_gpuperf.devices.simulated import SimulatedBackend

@pytest.hookimpl(optionalhook=True)
def pytest_gpuperf_devices():
    return [SimulatedBackend(throttle=lambda: ("thermal",))]
"""
    )
    source = "import numpy as np, pytest\n" + of("max_memory='1GB'") + of("latency=True").replace("_it", "_b")
    run(source).assert_outcomes(passed=2)


def test_memory_that_an_object_holds_counts_too(suite, report):
    source = """
class Model:
    def __init__(self, xp):
        self.weights = {"w": Weights(xp)}

class Weights:
    def __init__(self, xp):
        self.w = xp.ones(10**6)

@pytest.mark.speedup(min=3, max_memory="1MB")
def test_it(device):
    model = Model(device.xp)
    a = device.asarray(np.ones(10))
    return lambda: (model and a) + a
"""
    suite(source).assert_outcomes(failed=1)
    assert report()["records"][0]["memory"]["peak"] == 8_000_000 + 160
