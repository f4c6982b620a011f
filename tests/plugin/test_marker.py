"""The marker at pytest's door: what is collected, measured and failed."""

import json
import re

import pytest

MATMUL = """
    import numpy as np
    import pytest

    @pytest.mark.speedup({arguments})
    def test_matmul(device):
        a = device.asarray(np.ones((8, 8)))
        return lambda: a @ a
"""  # on the simulated devices 10 ms against 1 ms and a launch of 5 us


def test_a_whole_body_is_the_workload(run):
    result = run(
        """
        import pytest

        @pytest.mark.speedup(min=3)
        def test_fft(xp):
            xp.fft.fft(xp.ones(64))
        """
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["test_fft *20.0 ms*2.0* ms*x [[]*>=3x*passed"])


def test_a_returned_callable_is_the_workload(run):
    result = run(MATMUL.format(arguments="min=3"))
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["test_matmul *10.0 ms*1.0* ms*9.9*x [[]*>=3x*passed"])


def test_a_lost_speedup_fails_in_one_line_with_number_interval_and_demand(run):
    result = run(MATMUL.format(arguments="min=300"))
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines([r"^required at least 300x, speedup 9\.9\dx \[\d+\.\d+, \d+\.\d+\]$"])


def test_an_unexpected_speedup_fails_a_maximum(run):
    result = run(MATMUL.format(arguments="max=1"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["required at most 1x, speedup 9.9*x*"])


@pytest.mark.parametrize("arguments", ["", "min=1, max=20"])
def test_a_demand_that_is_met_passes(run, arguments):
    run(MATMUL.format(arguments=arguments)).assert_outcomes(passed=1)


def test_a_bare_marker_records_and_never_fails(run):
    result = run(
        """
        import pytest

        @pytest.mark.speedup
        def test_slower(device):
            return lambda: device.launch(1.0 if device.kind == "gpu" else 1e-3)
        """
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["test_slower *0.0010x*recorded"])


def test_a_demand_at_the_true_ratio_is_inconclusive_and_warns(run):
    result = run(
        """
        import pytest

        @pytest.mark.speedup(min=2)
        def test_even(device):
            return lambda: device.launch(2e-3 if device.kind == "cpu" else 1e-3 - 5e-6)
        """,
        "-Walways::pytest_gpuperf.InconclusiveWarning",
        "--gpuperf-max-time=1",
    )
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["1 inconclusive"])
    result.stdout.fnmatch_lines(
        ["*InconclusiveWarning: required at least 2x, speedup 2.0*inconclusive after * rounds, which lie on*"]
    )
    assert 1 == str(result.stdout).count("inconclusive after "), "among the warnings alone"


@pytest.mark.parametrize("options", [[], ["--disable-warnings"]])
def test_a_doubt_is_said_once_whether_pytest_shows_warnings_or_not(run, options):
    result = run(
        """
        import warnings
        import pytest

        @pytest.mark.speedup(min=2)
        def test_even(device):
            warnings.warn("one") if device.kind == "cpu" else None
            return lambda: device.launch(2e-3 if device.kind == "cpu" else 1e-3 - 5e-6)

        def test_other():
            warnings.warn("two")
        """,
        "-Walways",
        "--gpuperf-max-time=1",
        *options,
    )
    assert 1 == " ".join(str(result.stdout).split()).count("inconclusive after ")


@pytest.mark.parametrize(
    ("outcomes", "options"),
    [
        ({"failed": 1}, ("--gpuperf-fail=doubt",)),
        ({"passed": 1}, ("--gpuperf-fail=nothing", "-Werror")),
        ({"passed": 1}, ("-Werror", "-W", "ignore::pytest_gpuperf.InconclusiveWarning")),
    ],
)
def test_an_inconclusive_test_ends_as_the_user_settled_it(run, outcomes, options):
    result = run(
        """
        import pytest

        @pytest.mark.speedup(min=2)
        def test_even(device):
            return lambda: device.launch(2e-3 if device.kind == "cpu" else 1e-3 - 5e-6)
        """,
        *options,
    )
    result.assert_outcomes(**outcomes)


def test_a_run_that_fails_nothing_still_says_failed(run):
    result = run(MATMUL.format(arguments="min=300"), "--gpuperf-fail=nothing")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["test_matmul *>=300x*failed"])


OFF = """
import pytest

calls = []
minimal = pytest.mark.speedup(min=300)

@pytest.fixture
def ones(device):
    return device.xp.ones(3)

@minimal
def test_call(device, xp):
    assert xp is device.xp
    return lambda: calls.append(device.kind)

@minimal
def test_body(xp):
    calls.append("body")
    return 3

@minimal
def test_fixture(ones, device):
    calls.append(f"fixture on {device.kind}")

@minimal
@pytest.mark.parametrize("backend", ["numpy", "torch", "dask"])
def test_own(backend):
    calls.append(backend)

@minimal
def test_lonely(gpuperf):
    calls.append("lonely")

@pytest.mark.speedup(wrong=3)
@pytest.mark.offload_threshold("n")
def test_misused():
    calls.append("misused")

@pytest.mark.parametrize("run", [lambda: pytest.skip("why"), lambda: 1 / 0])
@minimal
def test_ends(device, run):
    run()

@minimal
def test_ends_in_its_workload(device):
    return lambda: 1 / 0

def test_after(request):
    request.applymarker(minimal)
    expected = ["cpu", "body", "fixture on cpu", "numpy", "torch", "dask", "lonely", "misused"]
    assert calls == expected
"""


def test_off_runs_each_test_once_as_if_the_plugin_were_not_there(run, pytester):
    result = run(OFF, "--gpuperf-off", "--gpuperf-json=r.json", "--gpuperf-all", gpu="none")
    result.assert_outcomes(passed=9, skipped=2, failed=2)
    failed = {line.partition("::")[2].partition(" ")[0] for line in result.outlines if "FAILED" in line}
    assert failed == {"test_ends[<lambda>1]", "test_ends_in_its_workload"}
    assert "- gpuperf -" not in result.stdout.str()
    assert not (pytester.path / "r.json").exists()


MISUSED = [
    (
        "least=3",
        "test_matmul: @pytest.mark.speedup: has no argument 'least': the valid arguments are min",
    ),
    ("3, min=3", "min is given twice"),
    ("min=0", "min must be a finite number above 0, not 0"),
    ("min='3'", "min must be a finite number above 0, not '3'"),
    ("min=3, max=2", "min must be at most max"),
    ("transfer='once'", "transfer='once' needs calls=N"),
    ("calls=3", "calls=3 has no effect without transfer='once'"),
    ("max_memory='lots'", "max_memory must be a number of bytes above 0"),
    ("latency=1", "latency must be True or False, not 1"),
]


def test_a_misused_marker_is_an_error_of_its_test_that_is_said_before_the_first_one_runs(marker_errors):
    said = marker_errors(*(MATMUL.format(arguments=arguments) for arguments, _ in MISUSED))
    for (_, expected), found in zip(MISUSED, said, strict=True):
        assert "test_matmul: @pytest.mark.speedup: " in found
        assert expected in found


def test_two_markers_a_misused_parameters_mark_and_no_plain_function_are_such_errors(marker_errors):
    two = """
        import pytest

        @pytest.mark.speedup(min=3)
        @pytest.mark.speedup(max=5)
        def test_it(device):
            pass
    """
    parametrized = """
        import pytest

        @pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.speedup(min=-1))])
        def test_it(n, device):
            pass
    """
    asynchronous = "import pytest\n@pytest.mark.speedup\nasync def test_it(device): pass"
    said = marker_errors(two, parametrized, asynchronous)
    assert "test_it: the test has 2 speedup markers, speedup(max=5) and speedup(min=3); keep one" in said[0]
    assert re.search(r"test_it\[2-cpu\] .*: @pytest.mark.speedup: min must be .* not -1", said[1])
    assert "cannot be async" in said[2]


def test_a_wrong_marker_is_an_error_of_no_other_test_and_each_function_is_listed_once(run, pytester):
    result = run(
        """
        import pytest

        @pytest.mark.parametrize("n", [1, 2])
        @pytest.mark.speedup(least=3)
        def test_wrong(device, n):
            pass

        @pytest.mark.speedup(min=3)
        async def test_async(device):
            pass

        @pytest.mark.speedup(min=3)
        def test_right(device):
            return lambda: device.launch()

        def test_plain():
            pass

        @pytest.mark.xfail(strict=True)
        @pytest.mark.speedup(most=3)
        def test_wrong_and_expected_to_fail(device):
            pass
        """,
        "--gpuperf-json=r.json",
    )
    result.assert_outcomes(errors=4, passed=2)
    listed = [line for line in result.outlines if line.startswith("gpuperf: error: ")]
    assert 3 == len(listed)
    assert "::test_wrong[1] (and 1 more of its parametrizations): @pytest.mark.speedup: " in listed[0]
    assert result.outlines.index(listed[1]) < next(
        index for index, line in enumerate(result.outlines) if line.startswith("test_it.py ")
    )
    records = json.loads((pytester.path / "r.json").read_text())["records"]
    reasons = [record["reason"] for record in records if record["status"] == "error"]
    assert 4 == len(reasons)
    assert reasons[0].startswith("@pytest.mark.speedup: has no argument 'least'")


def test_markers_that_a_decorator_of_a_class_copies_to_its_subclasses_count_once(suite):
    """As parameterized_class does, which makes a subclass for each device."""
    source = """
def of_each_device(cls):
    for kind in ("cpu", "gpu"):
        name = f"{cls.__name__}_{kind}"
        globals()[name] = type(name, (cls,), {**vars(cls), "device": kind})
    return None

@of_each_device
@pytest.mark.speedup(min=3)
class TestIt(unittest.TestCase):
    def test_ones(self):
        conftest.LIBRARIES[self.device].ones(3)

@of_each_device
@pytest.mark.offload_threshold("n")
@pytest.mark.speedup(min=3)
class TestSizes:
    @pytest.mark.parametrize("n", [3, 4])
    def test_ones(self, xp, n):
        xp.ones(n)
"""
    found = suite(source)
    found.ended(passed=10)
    assert "passed" == found.statuses["TestIt_gpu::test_ones"]
    assert 2 == len(found.written["thresholds"])


def test_without_a_device_only_that_test_is_an_error(run):
    result = run(
        """
        import pytest

        @pytest.mark.speedup(min=3)
        def test_lonely():
            pass

        def test_other():
            pass
        """
    )
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["a speedup test must use a device: *"])


def test_a_class_and_its_methods_can_be_marked_and_the_closest_wins(run):
    result = run(
        """
        import pytest

        @pytest.mark.speedup(min=300)
        class TestAll:
            def test_far(self, device):
                return lambda: device.launch()

            @pytest.mark.speedup(min=3)
            def test_near(self, device):
                return lambda: device.launch()

            @pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.speedup(min=2))])
            def test_nearest(self, device, n):
                return lambda: device.launch()
        """
    )
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["test_far *failed", "test_near *passed", "test_nearest[[]1] *>=2x *passed"])


VARIANTS = """
    import numpy as np
    import pytest

    @pytest.fixture(scope="{scope}")
    def data(device):
        return device.asarray(np.ones(100))

    @pytest.mark.parametrize("power", [2, 3])
    @pytest.mark.speedup(min={least})
    def test_power(data, power):
        return lambda: data ** power
"""


@pytest.mark.parametrize("scope", ["function", "module", "session"])
def test_a_fixture_on_device_makes_two_variants(run, scope):
    result = run(VARIANTS.format(scope=scope, least=3))
    result.assert_outcomes(passed=4)
    rows = [line for line in result.outlines if " ms " in line]
    assert 2 == len(rows), "those of the GPU have the CPU's times"
    assert all("gpu] " in row and " 10.0 ms " in row and " 9.9" in row for row in rows)
    assert all(row.endswith("  passed") for row in rows)


def test_the_verdict_of_variants_falls_on_the_gpu(run):
    result = run(VARIANTS.format(scope="function", least=300))
    result.assert_outcomes(passed=2, failed=2)


def test_a_gpu_variant_runs_after_its_cpu_variant_in_whatever_order_they_come(run, pytester):
    pytester.makeconftest(
        """
        import pytest

        @pytest.hookimpl(tryfirst=True)
        def pytest_collection_modifyitems(items):
            items.reverse()
        """
    )
    result = run(VARIANTS.format(scope="function", least=3), "-v")
    result.assert_outcomes(passed=4)


@pytest.mark.parametrize("chosen", [["-k", "gpu"], ["test_it.py::test_power[2-gpu]"]], ids=["-k", "node id"])
@pytest.mark.parametrize("scope", ["function", "module", "session"])
def test_a_gpu_variant_alone_is_compared_with_its_cpu_variant_which_is_no_test_of_the_run(
    run, pytester, chosen, scope
):
    source = VARIANTS.format(scope=scope, least=3)
    result = run(source, *chosen, "--gpuperf-json=r.json")
    count = 2 if chosen[0] == "-k" else 1
    result.assert_outcomes(passed=count, deselected=4 - 2 if count == 2 else 0)
    records = json.loads((pytester.path / "r.json").read_text())["records"]
    measured = [record["nodeid"] for record in records if record["status"] != "skipped"]
    assert count == len(measured)
    assert all("gpu]" in nodeid for nodeid in measured)


def test_a_marked_test_that_another_plugin_runs_fails_instead_of_passing_unmeasured(run, pytester):
    pytester.makeconftest(
        """
        def pytest_collection_modifyitems(items):
            items[0].runtest = lambda: None
        """
    )
    result = run(MATMUL.format(arguments="min=3"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["not measured: another plugin executed the test function itself"])


def test_results_are_compared_before_timing(run):
    result = run(
        """
        import pytest

        @pytest.mark.speedup(min=1)
        def test_wrong(device):
            return lambda: device.xp.ones(3) * (1 if device.kind == "cpu" else 1.1)
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["the devices disagree before timing: result: relative error 0.091*"])


def test_work_that_stays_on_the_host_is_an_error_and_no_speedup_of_one(run):
    result = run(
        """
        import numpy as np
        import pytest

        @pytest.mark.speedup(min=0.5)
        def test_forgot(device):
            a = np.ones(100)
            return lambda: a + 1
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["no work reached simulated GPU: *", "test_forgot *error"])


def test_a_workload_that_changes_its_input_is_named(run):
    result = run(
        """
        import numpy as np
        import pytest

        @pytest.mark.speedup(min=2)
        def test_adds(device):
            a = device.asarray(np.arange(100.0))
            return lambda: a.__iadd__(1)
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["the workload modifies its input (float64 array of shape (100,))*"])


def test_measuring_leaves_the_arrays_of_fixtures_to_the_tests_that_follow(run):
    result = run(
        """
        import numpy as np
        import pytest

        @pytest.fixture(scope="module")
        def table():
            return np.array([4.0, 1.0, 3.0])

        @pytest.mark.speedup
        def test_index(xp, table):
            if np.ptp(table) == 0:
                raise ValueError("empty table")
            table.sort()
            return xp.sum(xp.asarray(table))

        def test_the_table_is_sorted_and_nothing_else(table):
            assert table.tolist() == [1.0, 3.0, 4.0]
        """
    )
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize("hook", ["pytest_itemcollected(item)", "pytest_collection_modifyitems(items)"])
def test_a_marker_that_a_conftest_adds_counts(run, pytester, hook):
    body = "item.add_marker" if "item)" in hook else "items[0].add_marker"
    pytester.makeconftest(f"import pytest\ndef {hook}:\n    {body}(pytest.mark.speedup(min=300))\n")
    result = run("def test_it(gpu):\n    pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["nothing to compare with: this test runs on the GPU only*"])


def test_variants_that_a_conftest_marks_are_measured(run, pytester):
    pytester.makeconftest(
        """
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.speedup(min=300))
        """
    )
    result = run("def test_it(device):\n    return lambda: device.launch()\n")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["test_it[[]gpu] *9.9*>=300x  failed"])


def test_a_misused_marker_that_a_conftest_adds_is_an_error_of_its_test(run, pytester):
    pytester.makeconftest(
        """
        import pytest

        def pytest_collection_modifyitems(items):
            items[0].add_marker(pytest.mark.speedup(least=3))
        """
    )
    run("def test_it(device): pass").assert_outcomes(errors=1, passed=1)


def test_a_bare_marker_without_a_device_runs_the_test_and_says_that_nothing_was_measured(run):
    result = run("import pytest\n@pytest.mark.speedup\ndef test_it():\n    pass\n")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["test_it *error", "test_it: a speedup test must use a device: *"])


@pytest.mark.parametrize("option", [None, "--gpuperf-fail=nothing"])
def test_without_a_valid_measurement_a_test_that_may_not_fail_skips(run, option):
    demand = "" if option is None else "(min=3)"
    source = f"""
        import numpy as np
        import pytest

        @pytest.mark.speedup{demand}
        def test_forgot(device):
            a = np.ones(100)
            return lambda: a + 1
        """
    result = run(source, *([option] if option else []), "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*there is no valid measurement: no work reached simulated GPU*"])


def test_an_output_that_was_made_before_is_no_changed_input(run):
    result = run(
        """
        import numpy as np
        import pytest

        @pytest.mark.speedup(min=3)
        def test_out(device):
            a, out = device.asarray(np.ones(100)), device.asarray(np.zeros(100))
            return lambda: np.add(a, a, out=out)
        """
    )
    result.assert_outcomes(passed=1)


def test_a_kept_result_is_no_work(run):
    result = run(
        """
        import functools
        import pytest

        @pytest.mark.speedup(max=2)
        def test_kept(device):
            @functools.cache
            def work():
                return device.xp.ones(10)

            def look_up():
                device.clock.advance(1e-6)
                return work()

            return look_up
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["the last call submitted no work to simulated CPU*"])


@pytest.mark.parametrize(
    ("workload", "said"),
    [("lambda x: x", "takes arguments: missing a required argument: 'x'"), ("wait", "the workload is async")],
)
def test_a_workload_that_cannot_be_called_is_named(run, workload, said):
    result = run(
        f"""
        import pytest

        async def wait():
            pass

        @pytest.mark.speedup(min=2)
        def test_it(device):
            return {workload}
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"*{said}*"])


def test_times_of_a_slow_spell_are_measured_again(run):
    """The CPU is twenty times slower for its first calls, as it is when a neighbour takes its cores."""
    result = run(
        """
        import pytest

        @pytest.mark.speedup(min=5)
        def test_spell(device):
            calls = iter(range(10**9))
            slow = lambda: device.kind == "cpu" and next(calls) < 15
            return lambda: device.launch(20e-3 if slow() else 1e-3)
        """,
        "-v",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "test_spell * 1.00 ms *failed",
            "*restarted the measurement: on the CPU later calls took 1.00 ms*",
        ]
    )


def test_a_doctest_in_a_marked_module_is_let_be(run, pytester):
    result = run(
        '''
        """
        >>> 1 + 1
        2
        """
        import pytest

        pytestmark = pytest.mark.speedup

        def test_it(device):
            return device.launch
        ''',
        "--doctest-modules",
    )
    result.assert_outcomes(passed=2)


HINTED = """
import numpy as np
import pytest

@pytest.mark.speedup
def test_forgot(device):
    a = device.xp.ones(3)
    work = lambda: a + a

@pytest.mark.speedup
def test_all_of_it(device):
    a = device.asarray(np.ones(3))
    assert (device.asnumpy(a + a) == 2).all()

@pytest.mark.speedup(pair="x", transfer="always")
def test_lonely(device):
    a = device.xp.ones(3)
    return lambda: a + a

@pytest.mark.speedup(transfer="always")
def test_random(device):
    return lambda: device.xp.ones(3)

@pytest.mark.speedup(transfer="once", calls=3)
def test_well(device):
    a = device.asarray(np.ones(3))
    return lambda: a + a

@pytest.mark.speedup(pair="y")
def test_y_cpu(cpu):
    a = cpu.xp.ones(3)
    return lambda: a + a

@pytest.mark.speedup
def test_both(gpuperf):
    assert gpuperf.both(lambda xp: xp.ones(3))
"""


def test_a_test_that_times_what_its_author_did_not_mean_gets_a_hint(run, pytester):
    result = run(HINTED, "--gpuperf-json=r.json")
    result.assert_outcomes(passed=7)
    records = json.loads((pytester.path / "r.json").read_text(encoding="utf-8"))["records"]
    assert {
        record["nodeid"].partition("::")[2]: {note["code"] for note in record["notes"]} for record in records
    } == {
        "test_forgot": {"check_the_test", "results_not_compared"},
        "test_all_of_it": {"check_the_test", "results_not_compared"},
        "test_lonely": {"check_the_test"},
        "test_random": set(),
        "test_well": set(),
        "test_y_cpu": {"no_partner"},
        "test_both": set(),
    }
    result.stdout.fnmatch_lines(["test_all_of_it: the whole body is timed, including assertions, NumPy*"])


WRAPPED = """
from functools import partial
from unittest import mock
import pytest

@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(f"{__name__}.helper", lambda: 1)

def helper():
    pass

def wait(device):
    assert helper() == 1, "the patch is gone"
    device.launch(1e-3 if device.kind == "gpu" else 10e-3)

@pytest.mark.speedup(min=3)
@mock.patch(f"{__name__}.print", create=True)
def test_decorated(_print, device):
    return lambda: wait(device)

@pytest.mark.speedup(min=3)
def test_block(device):
    if device:
        with mock.patch(f"{__name__}.helper") as _, mock.patch(f"{__name__}.print", create=True):
            return partial(wait, device)

@pytest.mark.speedup(min=3)
def test_block_in_the_callable(device):
    def work():
        with mock.patch(f"{__name__}.print", create=True):
            return wait(device)
    with mock.patch(f"{__name__}.print", create=True):
        pass
    return work

@pytest.mark.speedup(min=3)
@mock.patch(f"{__name__}.print", create=True)
def test_decorated_body(_print, device):
    wait(device)
"""


def test_what_a_test_sets_around_its_callable_has_ended_when_that_is_timed(run, pytester):
    run(WRAPPED, "--gpuperf-json=r.json").assert_outcomes(passed=4)
    records = json.loads((pytester.path / "r.json").read_text(encoding="utf-8"))["records"]
    notes = {
        record["nodeid"].partition("::")[2]: [
            note["text"] for note in record["notes"] if note["code"] == "check_the_test"
        ]
        for record in records
    }
    ended = "has ended when the timed callable runs; what it needs of that belongs in it, or in a fixture"
    (block,) = notes.pop("test_block")
    with_ = "with mock.patch(f'{__name__}.helper') as _, mock.patch(f'{__name__}.print', create=True):"
    assert block == f"`{with_}` {ended}"
    assert notes == {
        "test_decorated": [f"the test's decorator {ended}"],
        "test_block_in_the_callable": [],
        "test_decorated_body": [],
    }


@pytest.mark.parametrize(
    ("head", "body", "said"),
    [
        ('@mock.patch(f"{__name__}.helper", lambda: 2)', "return work", "the test's decorator has ended"),
        (
            "",
            "with patch():\n        return work",
            "`with patch():` has ended when the timed callable runs",
        ),
        ("", "return work", None),
        ("", "with patch():\n        raise LookupError(1)\n        return work", None),
        ("", "with patch():\n        gpuperf.both(lambda device: work())\n        return work", None),
    ],
    ids=["decorator", "block", "none", "in the body", "both"],
)
def test_an_exception_where_a_context_has_ended_says_so(run, head, body, said):
    result = run(f"""
from functools import partial
from unittest import mock
import pytest

def helper():
    return 1

patch = partial(mock.patch, f"{{__name__}}.helper", lambda: 2)

@pytest.mark.speedup
{head}
def test_it({"gpuperf" if "both" in body else "device"}):
    def work():
        raise LookupError(f"helper() is {{helper()}}")
    {body}
""")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*LookupError: *"])
    if said is None:
        result.stdout.no_fnmatch_line("*has ended*")
    else:
        result.stdout.fnmatch_lines(["*LookupError: helper() is 1", f"E *{said}*"])


@pytest.mark.parametrize("returned", ["work", "lambda: work()", "partial(work)", "1", "None"])
@pytest.mark.parametrize("kind", ["slot", "variants", "all", "called"])
def test_a_decorator_that_hides_the_callable_is_an_error(suite, returned, kind):
    marker = "" if kind == "all" else "@pytest.mark.speedup(min=3)"
    name = "device" if kind in ("slot", "called") else "xp"
    source = f"""
from functools import partial, wraps

def hidden(test):
    @wraps(test)
    def call(*values, **named):
        result = test(*values, **named)
        return result() if {kind == "called"} and callable(result) else None
    return call

{marker}
@hidden
def test_it({name}):
    def work():
        return 3.0
    {name}.ones(3) if "{name}" == "xp" else {name}.xp.ones(3)
    return {returned}
"""
    found = suite(source, *(["--gpuperf-all"] if kind == "all" else []))
    said = "does not hand on the callable that the test returns, so its preparation would be timed"
    hides = returned not in ("1", "None")
    assert hides == any(said in (record["reason"] or "") for record in found.records.values())
    count = 1 if kind in ("slot", "called") else 2
    found.ended(**{"failed" if hides and kind != "all" else "passed": count})


def test_a_test_without_a_decorator_may_return_a_callable_only_now_and_then(suite):
    found = suite(
        """
@pytest.mark.speedup(min=3)
def test_it(xp):
    xp.ones(3)
    if not pytest:
        return lambda: xp.ones(3)
"""
    )
    assert {"test_it[numpy]": "recorded", "test_it[cupy]": "passed"} == found.statuses
