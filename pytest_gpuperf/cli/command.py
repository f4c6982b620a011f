"""From a command's name, help and function to its parser."""

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from typing import Any

from pytest_gpuperf.cli.output import CommandResult


def add_command(
    commands: Any, name: str, help: str, run: Callable[[Namespace], CommandResult], epilog: str | None = None
) -> ArgumentParser:
    """Add a command and return its parser; the help in the list of commands describes its own page, too."""
    description = f"{help[0].upper()}{help[1:]}."
    command: ArgumentParser = commands.add_parser(
        name, help=help, description=description, epilog=epilog, formatter_class=RawDescriptionHelpFormatter
    )
    command.set_defaults(run=run)
    return command
