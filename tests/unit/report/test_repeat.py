"""Repeat: a short command, true for what a verdict needs, and nothing else whatever a report holds."""

import shlex

from cases import for_each
from factories import gate_result, record, run_of, scaled, threshold, within
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_gpuperf.model.demand import Pairing, SizeGroup
from pytest_gpuperf.model.nodeid import without_number
from pytest_gpuperf.model.offload import Point, Threshold
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.report.repeat import Repeater

FFT = "tests/test_x.py::test_fft"


def command(one, *others, **changes) -> str:
    return Repeater(run_of(one, *others, **changes)).command(one)


def member(size: int, nodeid: str = FFT, **changes):
    size_group = SizeGroup(name=FFT, parameter="n", size=size, sizes=(1, 2))
    return record(f"{nodeid}[{size}]", size_group=size_group, **changes)


def failed(*nodeids: str) -> Threshold:
    """Return a threshold that failed over sizes of these tests."""
    points = (Point(size=size, nodeid=nodeid, cpu=None, gpu=None) for size, nodeid in enumerate(nodeids))
    return threshold("L", name=FFT, at_most=1, status="failed", reason="too late", curve=tuple(points))


@for_each(
    ("variables", "before"), [(None, ""), ({}, ""), ({"JAX_NUM_CPU_DEVICES": "4"}, "JAX_NUM_CPU_DEVICES=4 ")]
)
def test_a_scaling_test_is_repeated_on_as_many_emulated_devices(variables, before):
    run = run_of(scaled(4, 0.8), record(FFT))
    run = replace(run, environment=replace(run.environment, variables=variables))
    scaling, other = map(Repeater(run).command, run.records)
    assert f"{before}pytest 'a.py::test_step[4]'" == scaling
    assert other.startswith("pytest ")


def test_what_is_no_number_of_devices_is_no_part_of_a_command():
    for number in ("$(date)", "4; ls", "4\n", "\u0664", "9" * 10_000, ""):
        run = run_of(scaled(4, 0.8))
        run = replace(run, environment=replace(run.environment, variables={"JAX_NUM_CPU_DEVICES": number}))
        assert Repeater(run).command(run.records[0]).startswith("pytest ")


def test_a_test_is_repeated_with_the_options_of_its_run():
    expected = "pytest 'tests/test_x.py::test_fft[n=4096]' --gpuperf-gpu=sycl:cpu"
    assert expected == command(record(f"{FFT}[n=4096]"), arguments=("--gpuperf-gpu=sycl:cpu",))
    assert f"pytest {FFT}" == command(record(FFT))


def test_a_gpu_variant_comes_with_its_cpu_variant():
    pairing = Pairing(kind="gpu", library="cupy", partner=f"{FFT}[numpy]")
    gpu, cpu = record(f"{FFT}[cupy]", pairing=pairing), record(f"{FFT}[numpy]")
    other = record(f"{FFT}[torch]")
    assert f"pytest '{FFT}[numpy]' '{FFT}[cupy]'" == command(gpu, cpu, other)
    assert f"pytest {FFT}" == command(gpu, cpu)
    assert f"pytest '{FFT}[numpy]'" == command(cpu, gpu)


def test_the_size_with_the_verdict_of_the_threshold_comes_with_the_others():
    small, large, other = member(1), member(2), record(f"{FFT}[another]")
    curve = (failed(small.nodeid, large.nodeid),)
    assert f"pytest {FFT}" == command(large, small, thresholds=curve)
    assert f"pytest '{FFT}[2]' '{FFT}[1]'" == command(large, small, other, thresholds=curve)
    assert f"pytest '{FFT}[1]'" == command(small, large, thresholds=curve)


@for_each(
    ("expected", "arguments"),
    [
        ("--gpuperf-baseline=b.json --gpuperf-strict --gpuperf-allow=missing", ("--gpuperf-strict",)),
        ("--gpuperf-baseline=b.json --gpuperf-fail-on=gpu_time:5%", ("--gpuperf-fail-on=gpu_time:5%",)),
        (
            "--gpuperf-baseline=b.json --gpuperf-allow=missing --gpuperf-strict",
            ("--gpuperf-allow=missing", "--gpuperf-strict"),
        ),
    ],
)
def test_a_strict_check_allows_that_the_other_tests_do_not_run(expected, arguments):
    gate = gate_result(baseline="b.json", tolerances=(within(0.05, "gpu_time"),))
    found = command(record(FFT), gate=gate, arguments=("--gpuperf-baseline=b.json", *arguments))
    assert f"pytest {FFT} {expected}" == found


@for_each("hostile", ["-p", "--pdbcls=os:system", "; rm -rf /", "tests/other.py", "@file", "-c", "", "\n"])
def test_a_report_names_no_options_but_ours(hostile):
    assert f"pytest {FFT}" == command(record(FFT), arguments=(hostile,))


def test_a_test_outside_of_the_root_folder_is_repeated_by_its_modules_name():
    test = record("package.test_fft::TestIt::test_fft[a.py::b]#2")
    called = ["pytest", "--pyargs", "package.test_fft::TestIt::test_fft[a.py::b]"]
    assert called == shlex.split(command(test))


@for_each("nodeid", ["-x/test_a.py::test", "--help", "@arguments", "-k"])
def test_no_node_id_is_an_option_or_a_file_of_arguments(nodeid):
    _, word = shlex.split(command(record(nodeid)))
    assert f"./{nodeid}" == word


HARD = st.sampled_from(tuple("'\"\\`$!;&|<>*?[]{}()~# \n\r\t\x1b\x7f\u202e\udc80é😀09afnx"))


@given(st.lists(HARD, min_size=1, max_size=12).map("".join))
def test_a_shell_reads_one_word_and_shows_no_control_character(text):
    found = command(record(f"a{text}"), arguments=(f"--gpuperf-gpu={text}",))
    assert found.isprintable()
    expected = [without_number(f"a{text}"), f"--gpuperf-gpu={text}"]  # `#9` at its end is a result's number
    assert [*map(printable, expected)] == shlex.split(found)[1:]


def test_half_a_character_is_written_out():
    assert f"pytest '{FFT}[{chr(92)}ud800]'" == command(record(f"{FFT}[\ud800]"))
