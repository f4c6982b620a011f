"""Repeat: a short command, true for what a verdict needs, and nothing else whatever a report holds."""

import shlex

from cases import for_each
from factories import record, run_of, scaled, threshold
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_gpuperf.model.demand import Pairing, SizeGroup
from pytest_gpuperf.model.nodeid import without_number
from pytest_gpuperf.model.offload import Point
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.report import repeat

FFT = "tests/test_x.py::test_fft"
SIZES = SizeGroup(name=FFT, parameter="n", size=2, sizes=(1, 2))
CURVE = tuple(Point(size=size, nodeid=f"{FFT}[{size}]", cpu=None, gpu=None) for size in (1, 2))


def command(one, *others, variables=None, **changes) -> str:
    run = run_of(one, *others, **changes)
    run = replace(run, environment=replace(run.environment, variables=variables))
    return repeat.command(run, one, repeat.last_sizes(run))


@for_each(
    ("expected", "one", "variables"),
    [
        ("pytest 'a.py::test_step[4]'", scaled(4, 0.8), None),
        ("pytest 'a.py::test_step[4]'", scaled(4, 0.8), {}),
        ("JAX_NUM_CPU_DEVICES=4 pytest 'a.py::test_step[4]'", scaled(4, 0.8), {"JAX_NUM_CPU_DEVICES": "4"}),
        (
            "JAX_NUM_CPU_DEVICES='$(date)' pytest 'a.py::test_step[4]'",
            *(scaled(4, 0.8), {"JAX_NUM_CPU_DEVICES": "$(date)"}),
        ),
        (f"pytest {FFT}", record(FFT), {"JAX_NUM_CPU_DEVICES": "4"}),
    ],
)
def test_a_scaling_test_is_repeated_on_as_many_emulated_devices(expected, one, variables):
    assert expected == command(one, variables=variables)


def test_a_gpu_variant_comes_with_its_cpu_variant():
    pairing = Pairing(kind="gpu", library="cupy", partner=f"{FFT}[numpy]")
    gpu, cpu = record(f"{FFT}[cupy]", pairing=pairing), record(f"{FFT}[numpy]")
    assert f"pytest '{FFT}[numpy]' '{FFT}[cupy]'" == command(gpu, cpu)
    assert f"pytest '{FFT}[numpy]'" == command(cpu, gpu)


def test_the_size_with_the_verdict_of_the_threshold_comes_with_the_others():
    pairing = Pairing(kind="gpu", library="cupy", partner=f"{FFT}[numpy]")
    small, large = (record(f"{FFT}[{size}]", size_group=SIZES, pairing=pairing) for size in (1, 2))
    missed = threshold("L", name=FFT, at_most=1, status="failed", reason="too late", curve=CURVE)
    assert f"pytest {FFT}" == command(large, small, thresholds=(missed,))
    assert f"pytest '{FFT}[numpy]' '{FFT}[1]'" == command(small, large, thresholds=(missed,))


@for_each(
    ("expected", "arguments"),
    [
        ("--gpuperf-gpu=sycl:cpu", ("--gpuperf-gpu=sycl:cpu",)),
        ("--gpuperf-strict --gpuperf-allow=missing", ("--gpuperf-strict",)),
        ("--gpuperf-fail-on=gpu_time:5%", ("--gpuperf-fail-on=gpu_time:5%",)),
        ("--gpuperf-allow=missing --gpuperf-strict", ("--gpuperf-allow=missing", "--gpuperf-strict")),
        *(
            ("--gpuperf-off", (hostile, "--gpuperf-off"))
            for hostile in ("-p", "--pdbcls=os:system", "; rm -rf /", "tests/other.py", "@file", "", "\n")
        ),
    ],
)
def test_the_options_are_those_of_ours_and_a_strict_check_allows_that_other_tests_do_not_run(
    expected, arguments
):
    assert f"pytest {FFT} {expected}" == command(record(FFT), arguments=arguments)


@for_each(
    ("expected", "nodeid"),
    [
        (["--pyargs", "package.test_fft::test_fft[a.py::b]"], "package.test_fft::test_fft[a.py::b]#2"),
        *(([f"./{nodeid}"], nodeid) for nodeid in ("-x/test_a.py::test", "--help", "@arguments", "-k")),
        ([f"{FFT}[{chr(92)}ud800]"], f"{FFT}[\ud800]"),
    ],
)
def test_a_node_id_is_no_option_and_no_file_of_arguments(expected, nodeid):
    assert ["pytest", *expected] == shlex.split(command(record(nodeid)))


HARD = st.sampled_from(tuple("'\"\\`$!;&|<>*?[]{}()~# \n\r\t\x1b\x7f\u202e\udc80é😀09afnx"))


@given(st.lists(HARD, min_size=1, max_size=12).map("".join))
def test_a_shell_reads_one_word_and_shows_no_control_character(text):
    found = command(record(f"a{text}"), arguments=(f"--gpuperf-gpu={text}",))
    assert found.isprintable()
    expected = [without_number(f"a{text}"), f"--gpuperf-gpu={text}"]  # `#9` at its end is a result's number
    assert [*map(printable, expected)] == shlex.split(found)[1:]
