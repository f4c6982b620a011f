"""Pages of the reference that come from the code: options, commands and the fields of the report.

`conf.py` writes them as Markdown before each build, and pages of the reference include them.
"""

import io
import os
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

from pytest_gpuperf import cli, options
from pytest_gpuperf.report.json import schema

_COMMANDS = [
    "devices",
    "show",
    "compare",
    "baseline update",
    "merge",
    "history",
    "export",
    "validate",
    "recover",
]


def write(folder: Path) -> None:
    """Write every generated page into a folder."""
    folder.mkdir(exist_ok=True)
    for name, lines in (("options", _options()), ("commands", _commands()), ("report", _report())):
        (folder / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _options() -> Iterator[str]:
    for group, members in options.GROUPS.items():
        yield from (f"## Group: {group}", "", "| command line | ini file | |", "| --- | --- | --- |")
        for option in members:
            flag = option.flag if option.metavar is None else f"{option.flag}={option.metavar}"
            yield f"| `{_cell(flag)}` | `{option.key}` | {_cell(option.help)} |"
        yield ""


def _commands() -> Iterator[str]:
    os.environ["COLUMNS"] = "100"  # for argparse
    for command in _COMMANDS:
        text = io.StringIO()
        with redirect_stdout(text), suppress(SystemExit):
            cli.main([*command.split(), "--help"])
        yield from (f"## gpuperf {command}", "", "```text", text.getvalue().rstrip(), "```", "")


def _report() -> Iterator[str]:
    document = schema.published("report")
    yield from _fields("The document", document)
    for name in _by_first_use(document):
        yield from _fields(name, document["$defs"][name])


def _fields(name: str, described: dict[str, Any]) -> Iterator[str]:
    yield from (f"## {name}", "", described.get("description", ""), "")
    yield from ("| field | type | |", "| --- | --- | --- |")
    for field, value in described["properties"].items():
        yield f"| `{field}` | {_type(value)} | {_cell(value.get('description', ''))} |"
    yield ""


def _type(value: dict[str, Any]) -> str:
    """Return a JSON Schema's type for people: `number or null`, `list of Note`."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in value:
        return " or ".join(map(_type, value["anyOf"]))
    if "enum" in value:
        return ", ".join(f"`{each}`" for each in value["enum"])
    if "const" in value:
        return f"`{value['const']}`"
    kind = value["type"]
    if kind == "array":
        return f"list of {_type(value['items'])}"
    if kind == "object":
        return f"object of {_type(value['additionalProperties'])}"
    return " or ".join(kind) if isinstance(kind, list) else kind


def _by_first_use(document: dict[str, Any]) -> list[str]:
    """Return the names of the schema's types in the order in which a reader meets them."""
    found: list[str] = []
    waiting = [document]
    while waiting:
        for name in _references(waiting.pop(0)["properties"]):
            if name not in found:
                found.append(name)
                waiting.append(document["$defs"][name])
    return found


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"].rpartition("/")[2]
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
