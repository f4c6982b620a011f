"""Options: what their help texts say, and how they are read."""

import pytest
from _pytest.config.argparsing import Parser

from pytest_gpuperf import options
from pytest_gpuperf.collection.expected_tests import ExpectedTests
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.report import exports


def test_the_help_has_each_option_in_the_group_where_a_reader_looks():
    parser = Parser(_ispytest=True)
    options.add_options(parser)
    named = {
        group.name: [option.names()[0] for option in group.options]
        for group in parser._groups
        if group.options and group.name != "_anonymous"  # which has options that are refused
    }
    members = {
        "device": "gpu default-device require-gpu",
        "measure": "all off max-time cost-ratio lock",
        "gate": "fail baseline baseline-missing fail-on strict allow",
        "output": "json html markdown export history",
    }
    assert named == {
        f"gpuperf {group}": [f"--gpuperf-{name}" for name in names.split()]
        for group, names in members.items()
    }


def test_the_help_names_every_export_format(pytester):
    shown = " ".join(pytester.runpytest_inprocess("--help").stdout.lines)
    assert f"write the report as {', '.join(exports.formats())}, or" in " ".join(shown.split())


def test_without_options_a_run_measures_by_the_defaults(pytester):
    config = pytester.parseconfig()
    assert RunOptions() == options.run_options(config)
    assert not options.any_option_given(config)
    assert not options.times_all(config)


@pytest.mark.parametrize(
    ("flag", "name", "value"),
    [
        ("--gpuperf-max-time=3", "max_time", 3.0),
        ("--gpuperf-cost-ratio=4", "cost_ratio", 4.0),
        ("--gpuperf-fail=doubt", "fail", "doubt"),
        ("--gpuperf-default-device=numpy", "default_device", "numpy"),
        ("--gpuperf-off", "off", True),
        ("--gpuperf-lock=none", "lock", "none"),
    ],
)
def test_an_option_has_its_value(pytester, flag, name, value):
    assert value == getattr(options.run_options(pytester.parseconfig(flag)), name)


def test_the_command_line_wins_over_the_ini_file(pytester):
    pytester.makeini("[pytest]\ngpuperf_cost_ratio = 4\ngpuperf_max_time = 7\n")
    run = options.run_options(pytester.parseconfig("--gpuperf-cost-ratio=3"))
    assert (3.0, 7.0) == (run.cost_ratio, run.max_time)


@pytest.mark.parametrize(
    ("expected", "line", "flags"),
    [
        ((), "", []),
        (("missing",), "missing", []),
        (("missing", "no-gpu"), "no-gpu, missing", []),
        (("missing", "no-gpu"), "", ["--gpuperf-allow=missing,no-gpu"]),
        (("missing", "no-gpu"), "", ["--gpuperf-allow", "missing", "--gpuperf-allow", "no-gpu"]),
        (("no-gpu",), "missing", ["--gpuperf-allow=no-gpu"]),
    ],
)
def test_what_a_gate_allows_is_a_list(pytester, expected, line, flags):
    pytester.makeini(f"[pytest]\ngpuperf_allow = {line}\n" if line else "[pytest]\n")
    assert {*expected} == options.gate_options(pytester.parseconfig(*flags)).allow


def typed(pytester, *arguments):
    config = pytester.parseconfig(*arguments)
    return options.arguments(config, ExpectedTests(config).command_line)


def test_what_was_typed_of_our_options_is_kept_in_order_without_outputs(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_ADDOPTS", "--gpuperf-fail=nothing")
    pytester.makeini("[pytest]\naddopts = --gpuperf-strict\ngpuperf_cost_ratio = 3\n")
    outputs = ("--gpuperf-json=r.json", "--gpuperf-markdown", "m.md", "--gpuperf-history=h")
    outputs += ("--gpuperf-export=csv:e.csv", "--gpuperf-baseline-missing=create")
    ours = ("--gpuperf-max-time", "3", "--gpuperf-require-gpu", "--gpuperf-fail-on=gpu_time:5%")
    ours += ("--gpuperf-baseline=b.json", "--gpuperf-fail-on=speedup:10%", "--gpuperf-lock=none")
    assert (
        "--gpuperf-max-time=3",
        "--gpuperf-require-gpu",
        "--gpuperf-fail-on=gpu_time:5%",
        "--gpuperf-baseline=b.json",
        "--gpuperf-fail-on=speedup:10%",
        "--gpuperf-lock=none",
    ) == typed(pytester, "-q", *outputs, *ours, "-k", "not slow")


def test_a_path_that_was_typed_in_a_folder_is_kept_as_from_the_root(pytester, monkeypatch):
    pytester.makeini("[pytest]")
    monkeypatch.chdir(pytester.mkdir("folder"))
    root = pytester.path
    for expected, path in {
        "folder/b.json": "b.json",
        "b.json": "../b.json",
        "/b.json": "/b.json",
        "none": "none",
        str(root.parent / "b.json"): "../../b.json",
    }.items():
        assert (f"--gpuperf-baseline={expected}",) == typed(pytester, f"--gpuperf-baseline={path}")
    assert ("--gpuperf-lock=folder/l", "--gpuperf-default-device=b.json") == typed(
        pytester, "--gpuperf-lock=l", "--gpuperf-default-device=b.json"
    )


PATHS = ("json=", "html=", "markdown=", "export=csv:", "history=", "baseline=", "lock=")


@pytest.mark.parametrize("place", ["the command line", "the ini file"])
def test_a_tilde_is_the_home_folder(pytester, monkeypatch, place):
    home = pytester.mkdir("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))  # which is what Windows has
    named = [f"{option}~/{number}" for number, option in enumerate(PATHS)]
    if place == "the ini file":
        pytester.makeini("\n".join(["[pytest]", *(f"gpuperf_{line}" for line in named)]))
    config = pytester.parseconfig(*(f"--gpuperf-{line}" for line in named if place != "the ini file"))
    found = options.outputs(config)
    markdown, export, html = (output.path for output in found.files)
    paths = (options.json_path(config), html, markdown, export, found.history)
    paths += (options.gate_options(config).baseline, options.run_options(config).lock)
    assert [str(home / str(number)) for number in range(len(PATHS))] == [*map(str, paths)]


def test_a_typed_path_below_the_home_folder_is_kept_as_it_was_typed(pytester, monkeypatch):
    pytester.makeini("[pytest]")
    monkeypatch.chdir(pytester.mkdir("folder"))
    assert ("--gpuperf-baseline=~/b.json",) == typed(pytester, "--gpuperf-baseline=~/b.json")


def test_a_usage_error_of_a_worker_is_left_for_its_controller(pytester):
    config = pytester.parseconfig()
    config.workeroutput = {}
    error = options.usage_error(config, "no such device")
    assert "no such device" == str(error) == config.workeroutput[options.USAGE_ERROR]
