"""gpuperf --help, and how a wrong call is answered."""

import subprocess
import sys
from importlib.metadata import version

import pytest
from command import usage

from pytest_gpuperf.cli import main

COMMANDS = ["devices", "show", "validate", "recover", "compare", "against", "baseline", "merge", "history"]
WITH_EXAMPLES = {"against", "compare", "history", "merge", "show"}


@pytest.fixture
def helped(capsys):
    def call(*arguments):
        with pytest.raises(SystemExit, match=r"^0$"):
            main([*arguments])
        return capsys.readouterr().out

    return call


@pytest.mark.parametrize("command", [*COMMANDS, "baseline update"])
def test_help_says_what_a_command_does(helped, command):
    shown = helped(*command.split(), "--help")
    assert shown.startswith(f"usage: gpuperf {command} ")
    before, _, _ = shown.partition("positional arguments:" if "positional" in shown else "options:")
    assert len(before.splitlines()) > 2 or command == "baseline", "a sentence after the usage"
    assert f"example: gpuperf {command} " in shown or command not in WITH_EXAMPLES


def test_help_lists_the_commands_and_the_exit_codes(helped):
    shown = helped("--help")
    assert [True] * len(COMMANDS) == [f"    {each} " in shown for each in COMMANDS]
    said = "0 success; 1 merge found a failed test, or compare, against or baseline update a regression; 2 an"
    assert f"Exit codes: {said} error; 3 nothing to compare." in " ".join(shown.split())
    assert f"pytest-gpuperf {version('pytest-gpuperf')}\n" == helped("--version")


def test_the_module_is_the_command():
    command = [sys.executable, "-m", "pytest_gpuperf", "validate", "nothing.json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (2, True) == (ran.returncode, ran.stderr.startswith("gpuperf: nothing.json"))


@pytest.mark.parametrize(
    "arguments",
    ["", "nothing", "show", "baseline", "compare r.json", "merge a b", "merge -o a", "merge --fail=no"],
)
def test_a_wrong_call_is_answered_with_the_usage(capsys, arguments):
    assert usage(capsys, *arguments.split()).startswith("usage: gpuperf")
