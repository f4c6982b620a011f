"""The command `gpuperf`: its arguments in, its output and exit code out."""

import argparse
import os
import sys
from collections.abc import Sequence

from pytest_gpuperf.cli import against, baseline, compare, devices, reports
from pytest_gpuperf.cli.command import INTERRUPTED, WRONG, CommandResult, encoding
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.other_names import OTHER_NAMES
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.timing.gc_pause import gc_paused

_EPILOG = """\
gpuperf COMMAND --help has examples. Exit codes: 0 success; 1 merge found a failed test, or compare, \
against or baseline update a regression; 2 an error; 3 nothing to compare."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    parser, given = _parser(), sys.argv[1:] if arguments is None else arguments
    if given and given[0] in OTHER_NAMES["command"]:
        parser.error(f"{given[0]} is no command: use {OTHER_NAMES['command'][given[0]]}")
    ours, of_pytest = against.split(given)
    chosen = parser.parse_args(ours, argparse.Namespace(pytest=of_pytest))
    try:
        with gc_paused():  # a command keeps what it reads until it ends
            result: CommandResult = chosen.run(chosen)
    except (GpuPerfError, OSError, ValueError, ArithmeticError) as error:
        return _fail(_error_text(error))
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    if result.beside:
        print(result.beside, file=sys.stderr)
    try:
        # A node id may hold lone surrogates, which no encoding has.
        print(result.text.encode(encoding(), "backslashreplace").decode(encoding()), flush=True)
    except BrokenPipeError:  # e.g. `gpuperf show | head`
        _discard_output()
    except OSError as error:
        _discard_output()
        return _fail(f"standard output cannot be written: {error.strerror}")
    return result.code


def _error_text(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, ArithmeticError):
        return f"the report contains an impossible number ({error}); run the measurement again"
    return str(error)


def _fail(text: str, code: int = WRONG) -> int:
    print(f"gpuperf: {printable(text)}", file=sys.stderr)
    return code


def _discard_output() -> None:
    """Discard the interpreter's last flush: https://docs.python.org/3/library/signal.html#note-on-sigpipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


class _Version(argparse.Action):
    """Prints the version, which is looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"pytest-gpuperf {version('pytest-gpuperf')}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    description = "Work with reports of pytest-gpuperf."
    parser = argparse.ArgumentParser(prog="gpuperf", description=description, epilog=_EPILOG)
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for group in (devices, reports, compare, against, baseline):
        group.add(commands)
    return parser
