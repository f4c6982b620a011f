"""The command `gpuperf`: what can be done with reports outside pytest."""

import argparse
import sys
from collections.abc import Sequence

from pytest_gpuperf.command import baselines, comparing, devices, histories, merged, reports
from pytest_gpuperf.command.done import WRONG, Done
from pytest_gpuperf.model import GpuPerfError

__all__ = ["main"]

_EXIT_CODES = (
    "exit codes: 0 fine; 1 a demand failed or a metric regressed; 2 it could not be done; 3 there was "
    "nothing to compare"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    chosen = _parser().parse_args(arguments)
    try:
        done: Done = chosen.run(chosen)
    except (GpuPerfError, OSError, ValueError) as error:
        print(f"gpuperf: {_encodable(str(error), sys.stderr)}", file=sys.stderr)
        return WRONG
    try:
        print(_encodable(done.text, sys.stdout), flush=True)
    except BrokenPipeError:  # as of `gpuperf show | head`
        sys.stderr.close()
    return done.code


def _encodable(text: str, stream: object) -> str:
    """Return a text as the stream can write it: a node id may be no text."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuperf", description="Work with reports of pytest-gpuperf.", epilog=_EXIT_CODES
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for group in (devices, reports, comparing, baselines, merged, histories):
        group.add(commands)
    return parser
