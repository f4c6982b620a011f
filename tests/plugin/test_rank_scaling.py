"""A scaling test with `ranks`: several pytest processes measure it together, on simulated devices."""

import re
import sys

import pytest
from launches import launched

CONFTEST = """
import pytest
from pytest_gpuperf.devices.simulated import SimulatedBackend, Timing
from pytest_gpuperf.session.ranks import patience, roles

roles._LONGEST, patience._SHORTEST = {longest}, {shortest}
roles._ANSWER, roles._IDLE, roles._GRACE = 2.0, {grace}, {grace}

@pytest.hookimpl(optionalhook=True)
def pytest_gpuperf_devices():
    return [SimulatedBackend(name="one", gpu=Timing(kernel=0.0))]
"""
SUITE = """
import os
import numpy as np
import pytest

RANK = int(os.environ["RANK"])
TIMES = {times}  # milliseconds of each rank, by how many there are

@pytest.mark.scaling({marker})
def test_step(ranks):
    {body}
    part = ranks.asarray(np.arange(24.0), shard=0)
    def step():
        {call}
        ranks.device.launch(TIMES[ranks.count][RANK] / 1e3)
        return part * 2
    return step
"""
TIMES = {1: [10.0], 2: [5.0, 8.0]}
JUDGED = "[1, 2], efficiency=0.1"


@pytest.fixture
def launch(pytester):
    """Run a scaling test in so many ranks, of which each takes a known time, and return how they ended."""

    def run(
        *options,
        marker="[1, 2]",
        times=TIMES,
        body="pass",
        call="pass",
        ranks=2,
        longest=60.0,
        shortest=30.0,
        grace=60.0,
        source=SUITE,
    ):
        pytester.makeconftest(CONFTEST.format(longest=longest, shortest=shortest, grace=grace))
        pytester.makepyfile(test_it=source.format(marker=marker, times=times, body=body, call=call))
        options = ["--gpuperf-gpu=one", "--gpuperf-max-time=2", "--gpuperf-json=report.json", *options]
        return launched(pytester.path, range(ranks), ranks, *options)

    return run


def records(found):
    return {record["nodeid"].partition("::")[2]: record for record in found.report["records"]}


def statuses(found):
    return [record["status"] for record in found.report["records"]]


def on_1(what):
    return f"if RANK == 1: {what}"


@pytest.mark.parametrize("slowest", [0, 1, 2])
def test_a_sample_is_the_time_of_the_slowest_rank(launch, slowest):
    of_three = [4.0, 4.0, 4.0]
    of_three[slowest] = 5.0
    found = launch(marker="[1, 2, 3]", times={**TIMES, 3: of_three}, ranks=3)
    assert [0, 0, 0] == found.status, found.output
    assert ["recorded"] * 3 == statuses(found)
    three = records(found)["test_step[3ranks]"]
    assert three["gpu"]["median"] == pytest.approx(5e-3)
    assert three["scaling"]["base"]["median"] == pytest.approx(10e-3)
    assert three["scaling"]["efficiency"]["value"] == pytest.approx(10 / 15)
    ranks = three["scaling"]["ranks"]
    assert ("variables", 3, slowest) == (ranks["launcher"], ranks["ranks"], ranks["slowest"])
    assert ranks["slowest_share"] == 1
    assert ranks["slowest_excess"] == pytest.approx(0.25)
    assert ranks["skew"] > 0
    assert records(found)["test_step[1rank]"]["scaling"]["ranks"] is None


def test_the_verdict_is_on_the_most_ranks_and_those_beyond_a_count_wait(launch):
    found = launch("-v", marker="[1, 2], efficiency=0.5", ranks=3)
    assert [0, 0, 0] == found.status, found.output
    assert ["recorded", "passed"] == statuses(found)
    assert "2ranks] PASSED (efficiency 0.62 " in found.output[0]
    assert "ranks 2, time 8.00 ms, speedup 1.25x, efficiency 0.62" in found.output[0]
    assert "rank" == found.report["scalings"][0]["member"]
    found = launch(marker="[1, 2], efficiency=0.8", times={1: [10.0], 2: [5.0, 20.0]}, ranks=3)
    assert [1, 0, 0] == found.status
    last = found.report["records"][-1]
    assert "efficiency_below_limit" == last["reason_code"]
    assert last["reason"].endswith("on 2 ranks")


def test_rounds_are_held_against_what_one_rank_and_all_of_them_take_in_a_loop(launch):
    found = launch("--gpuperf-max-time=5", marker="[1, 2], efficiency=0.6")
    assert [0, 0] == found.status, found.output
    two = records(found)["test_step[2ranks]"]
    assert (two["scaling"]["base"]["alone"], two["gpu"]["alone"]) == pytest.approx((10e-3, 8e-3))


def test_each_rank_has_its_number_its_part_and_its_device_and_all_meet(launch, pytester):
    body = (
        "ranks.barrier(); open(f'met-{ranks.count}-{ranks.rank}', 'w').close(); ranks.barrier();"
        "met = sum(os.path.exists(f'met-{ranks.count}-{n}') for n in range(ranks.count));"
        "mine, all_of_it = ranks.asarray(np.arange(4.0), shard=0), ranks.asarray(np.arange(4.0));"
        "kind, group = ranks.device.kind, ranks.group;"
        "line = [ranks.count, ranks.rank, met, mine.tolist(), len(all_of_it), kind, group];"
        "open(f'seen-{RANK}', 'a').write(repr(line) + chr(10))"
    )
    found = launch(body=body, call="ranks.barrier()")
    assert [0, 0] == found.status, found.output
    seen = [{*(pytester.path / f"seen-{n}").read_text().splitlines()} for n in (0, 1)]
    assert {
        "[1, 0, 1, [0.0, 1.0, 2.0, 3.0], 4, 'gpu', None]",
        "[2, 0, 2, [0.0, 1.0], 4, 'gpu', None]",
    } == seen[0]
    assert {"[2, 1, 2, [2.0, 3.0], 4, 'gpu', None]"} == seen[1]


def test_whatever_is_called_on_rank_0_is_called_on_the_others_as_often(launch, pytester):
    counted = "calls[ranks.count] = calls.get(ranks.count, 0) + 1"
    source = SUITE + (
        "\ncalls = {{}}\n\ndef test_last():\n    open(f'calls-{{RANK}}', 'w').write(str(calls.get(2)))\n"
    )
    found = launch(call=counted, source=source)
    assert [0, 0] == found.status, found.output
    made = [int((pytester.path / f"calls-{n}").read_text()) for n in (0, 1)]
    assert made[0] == made[1] > 20


def test_a_body_that_is_the_workload_and_a_workload_with_a_reset_are_measured(launch):
    source = """
import os
import numpy as np
import pytest

RANK = int(os.environ["RANK"])

@pytest.mark.scaling([1, 2])
def test_body(ranks):
    part = ranks.asarray(np.arange(24.0), shard=0)
    ranks.device.launch(([4e-3, 3e-3] if ranks.count == 2 else [6e-3])[ranks.rank])
    return part * 2

@pytest.mark.scaling([1, 2])
def test_reset(ranks, gpuperf):
    part = ranks.asarray(np.arange(24.0), shard=0)
    def reset():
        part[:] = 1.0
    def call():
        assert part[0] == 1.0
        part[:] = 2.0
        ranks.device.launch(([3e-3, 4e-3] if ranks.count == 2 else [6e-3])[ranks.rank])
        return part * 2
    def once():
        reset()
        return call()
    return gpuperf.workload(once, reset=reset)
"""
    found = launch(source=source)
    assert [0, 0] == found.status, found.output
    medians = [record["gpu"]["median"] for record in found.report["records"]]
    assert [6e-3, 4e-3] * 2 == pytest.approx(medians, rel=1e-4)
    assert [True, True] == [record["check"]["agreed"] for record in found.report["records"][1::2]]


@pytest.mark.parametrize("where", ["body", "call"])
@pytest.mark.parametrize(
    ("what", "status", "words"),
    [
        ("raise ValueError('odd')", "error", "rank 1 raised ValueError: odd"),
        ("pytest.skip('not here')", "skipped", "rank 1: not here"),
        ("os._exit(3)", "error", "was killed or crashed"),
        ("os.kill(os.getpid(), 9)", "error", "was killed or crashed"),
    ],
)
def test_how_one_rank_ends_a_test_ends_it_on_all_with_the_cause(launch, where, what, status, words):
    found = launch("-rs", **{where: on_1(what)}, ranks=3, marker="[1, 3]", times={1: [9.0], 3: [3.0] * 3})
    assert ["recorded", status] == statuses(found)
    assert words in found.report["records"][-1]["reason"]
    assert words in found.output[2]
    expected = 0 if status == "skipped" else 1
    assert [expected, expected] == [found.status[0], found.status[2]]


def test_a_call_that_raises_after_many_ends_the_test_on_all(launch):
    call = "count.append(1); assert RANK == 0 or len(count) < 30, 'too many'"
    found = launch(body="count = []", call=call)
    assert [1, 1] == found.status
    assert "rank 1 raised AssertionError: too many" in found.report["records"][-1]["reason"]
    assert "AssertionError: too many" in found.output[1]


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("raise ValueError('odd')", "rank 0 has ended the test: ValueError: odd"),
        ("os._exit(3)", "rank 0 was killed or crashed"),
    ],
)
def test_how_rank_0_ends_a_test_ends_it_on_all_with_the_cause(launch, what, words):
    found = launch(body=f"if RANK == 0 and ranks.count == 2: {what}")
    assert found.status[0] != 0
    assert 1 == found.status[1]
    assert words in found.output[1]


def test_how_a_fixture_of_one_rank_ends_a_test_ends_it_on_all_with_the_cause(launch):
    fixture = (
        "\n@pytest.fixture(autouse=True)\ndef prepared(request):\n"
        "    if RANK == {} and '2ranks' in request.node.name:\n        {}\n"
    )
    fails, skips = "raise ValueError('no room')", "pytest.skip('not here')"
    found = launch(source=SUITE + fixture.format(1, fails))
    assert [1, 1] == found.status
    cause = "rank 1: ValueError: no room, raised in its set-up"
    assert cause == found.report["records"][-1]["reason"]
    found = launch(source=SUITE + fixture.format(0, fails))
    assert [1, 1] == found.status
    assert "rank 0 has ended the test: ValueError: no room, raised in its set-up" in found.output[1]
    found = launch(source=SUITE + fixture.format(1, skips))
    assert [0, 0] == found.status
    assert ["recorded", "skipped"] == statuses(found)
    assert "rank 1: not here" == found.report["records"][-1]["reason"]
    found = launch("-rs", source=SUITE + fixture.format(0, skips))
    assert [0, 0] == found.status
    assert "rank 0 has ended the test: not here" in found.output[1]


SLEEP = "__import__('time').sleep(600)"
STUCK = "[(m, c.pthread_mutex_lock(m)) for c in [__import__('ctypes').CDLL(None)] for m in [MUTEX] * 2]"
"""A call in C that no signal ends: it takes a lock that it has."""
HANGING = SUITE + "\nimport ctypes\nMUTEX = ctypes.create_string_buffer(64)\n"


@pytest.mark.skipif(sys.platform == "win32", reason="where no rank is asked to end")
@pytest.mark.parametrize("where", ["body", "call"])
@pytest.mark.parametrize(("hang", "status"), [(SLEEP, 2), (STUCK, -9)], ids=["sleep", "in C"])
def test_a_rank_that_hangs_ends_the_test_on_all_and_its_own_run(launch, where, hang, status):
    times = {1: [9.0], 3: [3.0] * 3}
    ours = {"source": HANGING, "marker": "[1, 3]", "times": times, "ranks": 3, "shortest": 1.0}
    found = launch(**{where: on_1(hang)}, **ours, grace=60.0 if status == 2 else 1.0)
    assert [1, status, 1] == found.status, found.output
    cause = r"rank 1 \(.*, process \d+\) has said nothing for \d+ s in .*::test_step\[3ranks\]: it hangs"
    assert re.search(cause, found.report["records"][-1]["reason"])
    assert re.search(cause, found.output[2])
    assert (status == 2) == ("was asked to end (SIGTERM) at" in found.output[1])


@pytest.mark.skipif(sys.platform == "win32", reason="where no rank is asked to end")
@pytest.mark.parametrize("where", ["body", "call"])
@pytest.mark.parametrize(("hang", "status"), [(SLEEP, 2), (STUCK, -9)], ids=["sleep", "in C"])
def test_a_rank_0_that_hangs_is_not_waited_for(launch, where, hang, status):
    hang = f"if RANK == 0 and ranks.count == 2: {hang}"
    grace = 60.0 if status == 2 else 1.0
    found = launch(**{where: hang}, source=HANGING, shortest=1.0, grace=grace)
    assert [status, 1] == found.status, found.output
    assert re.search(r"rank 0 has said nothing for \d+ s", found.output[1])
    if status == 2:
        assert ["recorded", "error"] == statuses(found)
        assert "this run was asked to end (SIGTERM) at" in found.report["records"][-1]["reason"]


def test_after_a_rank_has_hung_no_test_waits_for_it(launch):
    again = SUITE.partition("@pytest")[2].replace("test_step", "test_again")
    found = launch(body=on_1(SLEEP), source=SUITE + "\n@pytest" + again, shortest=1.0)
    assert [1, 2] == found.status
    assert ["recorded", "error"] * 2 == statuses(found)
    cause = r"rank 1 \(.*\) has said nothing for \d+ s in test_it.py::test_step\[2ranks\]"
    assert re.search(cause, found.report["records"][-1]["reason"])
    assert re.search(f"gpuperf: {cause}, and was asked to end", found.output[0])
    assert "s in test_it.py::test_again" not in "".join(found.output)


@pytest.mark.skipif(sys.platform == "win32", reason="where os.kill ends a process at once")
def test_where_a_launcher_ends_rank_0_for_another_rank_the_cause_is_that_rank(launch):
    ended = "__import__('time').sleep(1); os.kill(os.getpid(), 15)"
    found = launch(body=f"if ranks.count == 2: os._exit(3) if RANK else ({ended.replace(';', ',')})")
    assert [2, 3] == found.status
    cause = r"rank 1 \(.*\) was killed or crashed; interrupted .* this run was asked to end"
    assert re.match(cause, found.report["records"][-1]["reason"])


def test_a_rank_that_comes_late_to_a_test_does_not_hang(launch):
    late = "\n\ndef test_before():\n    __import__('time').sleep(4 * {})\n"
    for late_rank in ("RANK", "(1 - RANK)"):
        first, _, test = SUITE.partition("@pytest.mark")
        found = launch(source=first + late.format(late_rank) + "\n@pytest.mark" + test, shortest=0.1)
        assert [0, 0] == found.status, found.output


def test_a_rank_0_that_works_alone_for_long_does_not_hang(launch):
    slow = "if ranks.count == 1: __import__('time').sleep(0.2 if ranks.rank else 5)"
    found = launch("--gpuperf-max-time=1", body=slow, shortest=0.1)
    assert [0, 0] == found.status, found.output


def test_ranks_that_do_not_meet_as_often_are_told(launch):
    found = launch(body="if RANK == 0 and ranks.count == 2: ranks.barrier()")
    assert [1, 1] == found.status
    assert "rank 1 is at another place of the test (done) than rank 0 (barrier)" in found.output[0]
    found = launch(body=on_1("ranks.barrier()"))
    assert [1, 1] == found.status
    assert "rank 1 is at another place of the test (barrier) than rank 0 (done)" in found.output[0]


def test_a_callable_on_rank_0_alone_is_told(launch):
    for marker, status in (("[1, 2]", 0), (JUDGED, 1)):  # what requires nothing skips, on all
        found = launch("-rs", body=on_1("return None"), marker=marker)
        assert [status, status] == found.status
        words = "the test has returned a callable on rank 0, and none like it here"
        assert all(words in output for output in found.output)


def test_too_few_ranks_skip_with_the_remedy(launch):
    found = launch("-rs", marker="[1, 4]", times={1: [9.0]})
    assert [0, 0] == found.status
    assert ["recorded", "skipped"] == statuses(found)
    assert "too_few_ranks" == found.report["records"][-1]["reason_code"]
    for output in found.output:
        assert "4 ranks are needed, and this launch has 2; start torchrun --nproc-per-node 4 -m" in output


def test_in_other_tests_and_where_nothing_is_measured_there_is_one_rank(run):
    plain = "def test_it(ranks):\n    assert (ranks.count, ranks.rank) == (1, 0)\n    ranks.barrier()\n"
    run(plain).assert_outcomes(passed=1)
    source = SUITE.replace('int(os.environ["RANK"])', "0")
    off = run(source.format(marker="[1, 2]", times=TIMES, body="pass", call="pass"), "--gpuperf-off")
    off.assert_outcomes(passed=1, skipped=1)


def test_a_rank_without_input_or_without_work_is_refused(launch):
    without = SUITE.replace("part = ranks", "part = np.ones(2) if RANK else ranks")
    found = launch(source=without, marker=JUDGED)
    assert [1, 1] == found.status
    assert (
        "no input of the workload is on 1 of the 2 ranks (1); divide them with ranks.asarray"
        in found.output[0]
    )
    found = launch(call=on_1("return part is None"), marker=JUDGED)
    assert [1, 1] == found.status
    assert "no work reached 1 of the 2 ranks (1); submit a part of it on each of them" in found.output[0]


def test_under_weak_scaling_inputs_grow_with_the_ranks(launch):
    marker = "[1, 2], mode='weak', efficiency=0.8"
    grown = SUITE.replace("np.arange(24.0)", "np.arange(24.0 * ranks.count)")
    found = launch(marker=marker, times={1: [8.0], 2: [8.0, 9.0]}, source=grown)
    assert [0, 0] == found.status, found.output
    assert records(found)["test_step[2ranks]"]["scaling"]["efficiency"]["value"] == pytest.approx(8 / 9)
    found = launch(marker=marker, times={1: [8.0], 2: [8.0, 9.0]})
    assert [1, 1] == found.status
    assert (
        "is too small compared with that of 1 rank; make what is divided ranks.count times" in found.output[0]
    )


RESULTS = """
import os
import numpy as np
import pytest

RANK = int(os.environ["RANK"])

@pytest.mark.scaling([1, 2], efficiency=0.1)
def test_step(ranks):
    part, whole = ranks.asarray(np.arange(24.0), shard=0), ranks.asarray(np.arange(24.0))
    def step():
        ranks.device.launch([10e-3, 5e-3][ranks.count - 1])
        return {body}
    return step
"""


@pytest.mark.parametrize(
    "result",
    [
        "part * 2",  # each rank has its part
        "whole * 2",  # each has the whole
        "float(whole.sum())",
        "{'part': part * 2, 'loss': np.float32(3.0), 'name': 'a'}",
        "[part.reshape(1, -1) + 1, part.reshape(-1, 1) + 1]",  # along the axis on which more ranks have less
        "whole.sum() if RANK == 0 else None",  # of rank 0 alone
        "whole * 2 if RANK == 0 else part",
    ],
)
def test_results_of_several_ranks_are_compared_with_those_of_the_fewest(launch, result):
    found = launch(source=RESULTS, body=result)
    assert [0, 0] == found.status, found.output
    assert records(found)["test_step[2ranks]"]["check"]["agreed"] is True


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ("part * (2 - RANK)", "relative error"),
        ("whole + RANK", "relative error"),
        ("np.float32(1 + RANK)", "relative error"),
        ("whole[:8 * ranks.count]", "shape"),
        ("part if RANK == 0 else part[:7]", "shape"),
    ],
)
def test_a_rank_with_a_wrong_part_of_the_result_fails_the_test(launch, result, words):
    found = launch(source=RESULTS, body=result)
    assert [1, 0] == found.status
    record = records(found)["test_step[2ranks]"]
    assert "devices_disagree" == record["reason_code"], record["reason"]
    assert words in record["reason"]


def test_lists_of_numbers_and_results_under_weak_scaling_are_those_of_all_ranks(launch):
    found = launch(source=RESULTS, body="[float(n + (n == 70) * RANK) for n in range(100)]")
    assert [1, 0] == found.status
    weak = RESULTS.replace("[1, 2]", "[1, 2], mode='weak'").replace("24.0", "24.0 * ranks.count")
    changing = "part * (1 if RANK == 0 else len(count.append(1) or count))"
    found = launch(source=weak.replace("def step", "count = []\n    def step"), body=changing)
    assert 1 == found.status[0]
    assert "the workload's result changes from call to call" in found.report["records"][-1]["reason"]


def test_the_fewest_ranks_may_be_several(launch):
    found = launch(marker="[2, 4], efficiency=0.9", times={2: [8.0, 10.0], 4: [4.0, 4.0, 5.0, 3.0]}, ranks=4)
    assert [0] * 4 == found.status, found.output
    four = found.report["records"][-1]
    assert (10e-3, 5e-3) == pytest.approx((four["scaling"]["base"]["median"], four["gpu"]["median"]))
    assert four["check"]["agreed"] is True


def test_what_a_rank_raises_in_the_very_last_call_ends_the_test(launch, pytester):
    counting = "count.append(1); open(f'calls-{RANK}', 'w').write(str(len(count)))"
    assert [0, 0] == launch(body="count = []", call=counting).status
    last = int((pytester.path / "calls-1").read_text())
    found = launch(body="count = []", call=f"{counting}; assert RANK == 0 or len(count) < {last}")
    assert [1, 1] == found.status
    assert "rank 1 raised AssertionError" in found.report["records"][-1]["reason"]


def test_ranks_have_one_order_with_the_tests_that_failed_first(launch, pytester):
    suite = SUITE + "\n@pytest.mark.scaling([1, 2])\ndef test_broken(ranks):\n    raise ValueError('odd')\n"
    for options in ([], ["--ff"]):
        found = launch("-pcacheprovider", *options, source=suite)
        assert ["recorded"] * 2 + ["error"] * 2 == sorted(statuses(found), reverse=True), found.output


def test_a_result_that_only_timed_calls_get_wrong_is_found(launch):
    wrong = "part * (1 if RANK == 0 or len(count.append(1) or count) < 9 else 2)"
    found = launch(source=RESULTS.replace("def step", "count = []\n    def step"), body=wrong)
    assert [1, 0] == found.status
    assert "the devices disagree after timing" in records(found)["test_step[2ranks]"]["reason"]


def test_a_large_result_of_several_ranks_is_compared(launch):
    large = RESULTS.replace("24.0", "4e6").replace("1e-3", "1e-2")
    found = launch(source=large, body="part + (RANK == 1)")
    assert [1, 0] == found.status
    assert "the devices disagree before timing" in records(found)["test_step[2ranks]"]["reason"]
    found = launch(source=large, body="whole * 2")
    assert [0, 0] == found.status, found.output


def test_results_are_not_compared_where_that_is_not_asked_or_problems_differ(launch):
    unasked = RESULTS.replace("efficiency=0.1", "efficiency=0.1, check=False")
    found = launch(source=unasked, body="part * (2 - RANK)")
    assert [0, 0] == found.status
    grown = RESULTS.replace("efficiency=0.1", "mode='weak'").replace("24.0", "24.0 * ranks.count")
    found = launch(source=grown, body="part * (2 - RANK)")
    assert [0, 0] == found.status
    check = records(found)["test_step[2ranks]"]["check"]
    assert "under weak scaling each number of ranks has a problem of its own" == check["reason"]


def test_a_rank_that_is_slowest_nearly_always_is_a_straggler(launch):
    found = launch()
    (curve,) = found.report["scalings"]
    assert ["straggler"] == [diagnosis["code"] for diagnosis in curve["diagnosis"]]
    sentence = "rank 1 of 2 was the slowest in 100 % of the blocks, by 60 %"
    assert sentence in found.output[0]
    found = launch(times={1: [10.0], 2: [5.0, 5.1]})
    assert [] == found.report["scalings"][0]["diagnosis"]


MISUSED = {
    "scaling([1, 2])\ndef test_it(devices, ranks): pass": "the test takes `devices` and `ranks`",
    "scaling([1, 2])\ndef test_it(gpu): pass": "must take the fixture `devices` of pytest-gpuperf",
}


def test_misuse_is_an_error_with_what_is_valid(marker_errors):
    said = marker_errors(*(f"import pytest\n@pytest.mark.{source}" for source in MISUSED))
    for expected, found in zip(MISUSED.values(), said, strict=True):
        assert expected in found
