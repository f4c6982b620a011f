"""The command `gpuperf`: what can be done with reports outside pytest."""

import argparse
import os
import sys
from collections.abc import Sequence

from pytest_gpuperf.cli import baseline, compare, devices, history, merge, reports
from pytest_gpuperf.cli.output import WRONG, CommandResult
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.report.escape import printable
from pytest_gpuperf.timing.gc_pause import gc_paused

__all__ = ["main"]

_EXIT_CODES = (
    "exit codes: 0 fine; 1 a demand failed or a metric regressed; 2 it could not be done; 3 there was "
    "nothing to compare"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    chosen = _parser().parse_args(arguments)
    try:
        with gc_paused():  # a command holds what it reads until it ends
            done: CommandResult = chosen.run(chosen)
    except (GpuPerfError, OSError, ValueError, ArithmeticError) as error:
        return _wrong(_words(error))
    try:
        print(_encodable(done.text, sys.stdout), flush=True)
    except BrokenPipeError:  # as of `gpuperf show | head`
        _discard_output()
    except OSError as error:
        _discard_output()
        return _wrong(f"standard output cannot be written: {error.strerror}")
    return done.code


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, ArithmeticError):
        return f"there is a number that no measurement gives ({error}); measure anew"
    return str(error)


def _wrong(text: str) -> int:
    print(f"gpuperf: {printable(text)}", file=sys.stderr)
    return WRONG


def _discard_output() -> None:
    """Let the interpreter's last flush go nowhere: https://docs.python.org/3/library/signal.html#note-on-sigpipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _encodable(text: str, stream: object) -> str:
    """Return a text as the stream can write it: a node id may be no text."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuperf",
        description="Work with reports of pytest-gpuperf.",
        epilog=f"gpuperf COMMAND --help has examples. {_EXIT_CODES[0].upper()}{_EXIT_CODES[1:]}.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for group in (devices, reports, compare, baseline, merge, history):
        group.add(commands)
    return parser
