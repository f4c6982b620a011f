#!/usr/bin/env python3
"""Count the code lines of each room; exit 1 when a room is more than 5 % above its budget in budget.toml.

A code line holds a token outside comments and docstrings; the strings below fields are docstrings, too. A
room is a folder of the package, and the modules at its top are the room `top`.
"""

import ast
import sys
import tokenize
import tomllib
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "pytest_gpuperf"
BUDGETS = Path(__file__).with_name("budget.toml")
SPARE = 0.05
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def main() -> int:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--modules", action="store_true", help="only list the modules, the longest first")
    arguments = parser.parse_args()
    modules = {path.relative_to(FOLDER): code_lines(path) for path in sorted(FOLDER.rglob("*.py"))}
    if arguments.modules:
        for module, lines in sorted(modules.items(), key=lambda item: -item[1]):
            print(f"{lines:6}  {module.as_posix()}")
        return 0
    budgets = tomllib.loads(BUDGETS.read_text(encoding="utf-8"))
    rooms: Counter[str] = Counter()
    for module, lines in modules.items():
        rooms[room(module)] += lines
    print_table(rooms, Counter(map(room, modules)), budgets)
    exceeded = too_large(rooms, budgets)
    for sentence in exceeded:
        print(sentence)
    return 1 if exceeded else 0


def code_lines(path: Path) -> int:
    """Return how many lines of a module hold code."""
    with path.open("rb") as file:
        _, *tokens = tokenize.tokenize(file.readline)  # the first one is the encoding, on no line
    code = {
        line
        for token in tokens
        if token.type not in NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    docstrings = {
        line
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    return len(code - docstrings)


def room(module: Path) -> str:
    """Return the room of a module, given by its path in the package."""
    return module.parts[0] if len(module.parts) > 1 else "top"


def too_large(rooms: Mapping[str, int], budgets: Mapping[str, int]) -> list[str]:
    """Return a sentence for each room that is too large, with what to do."""
    return [
        f"{name} is {lines - budget} code lines above its budget of {budget} ({SPARE:.0%} are allowed): make "
        "it smaller, or raise its budget in .ci/budget.toml in the same commit and write the reason there."
        for name, lines in sorted(rooms.items())
        if lines > (budget := budgets.get(name, 0)) * (1 + SPARE)
    ]


def print_table(rooms: Counter[str], modules: Counter[str], budgets: Mapping[str, int]) -> None:
    print(f"{'room':12}  {'modules':>7}  {'code lines':>10}  {'budget':>6}")
    for name, lines in sorted(rooms.items()):
        print(f"{name:12}  {modules[name]:7}  {lines:10}  {budgets.get(name, 0):6}")
    print(f"{'all':12}  {modules.total():7}  {rooms.total():10}  {sum(budgets.values()):6}")


if __name__ == "__main__":
    sys.exit(main())
