"""gpuperf --help, and how a wrong call is answered."""

import runpy
import sys
from importlib.metadata import version

import pytest
from command import usage

import pytest_gpuperf
from pytest_gpuperf.cli import main

COMMANDS = ["devices", "show", "validate", "export", "recover", "compare", "baseline", "merge", "history"]


@pytest.mark.parametrize("command", [[], *([each] for each in COMMANDS), ["baseline", "update"]])
def test_help_says_what_it_does(capsys, command):
    with pytest.raises(SystemExit) as end:
        main([*command, "--help"])
    assert end.value.code == 0
    told = capsys.readouterr().out
    assert told.startswith("usage: " + " ".join(["gpuperf", *command]))
    before, _, _ = told.partition("positional arguments:" if "positional" in told else "options:")
    assert len(before.splitlines()) > 2 or command == ["baseline"], "a sentence beside the usage"


def test_help_lists_the_commands_and_the_exit_codes(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    told = capsys.readouterr().out
    assert [f"    {each} " in told for each in COMMANDS] == [True] * len(COMMANDS)
    said = "0 success; 1 merge found a failed test, or compare or baseline update a regression; 2 an error;"
    assert f"Exit codes: {said} 3 nothing to compare." in " ".join(told.split())


def test_the_version_is_that_of_the_installed_package(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert (0, f"pytest-gpuperf {version('pytest-gpuperf')}\n") == (end.value.code, capsys.readouterr().out)


def test_the_module_is_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["pytest_gpuperf", "validate", "nothing.json"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(pytest_gpuperf.__path__[0], run_name="__main__")
    assert end.value.code == 2
    assert "gpuperf: nothing.json" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["compare", "export", "history", "merge"])
def test_help_has_an_example(capsys, command):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert f"example: gpuperf {command} " in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [[], ["nothing"], ["show"], ["export", "r.json"], ["baseline"], ["compare", "r.json"]]
)
def test_a_wrong_call_is_answered_with_the_usage(capsys, arguments):
    assert usage(capsys, *arguments).startswith("usage: gpuperf")
