"""Write the published JSON Schemas from the types that the reports are made of; --check only compares them.

Properties are described by the string below each field of a class, classes by their docstrings.
"""

import ast
import inspect
import json
import sys
from argparse import ArgumentParser
from array import array
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from pytest_gpuperf.model import comparison, demand, launch, measurement, offload, record, roof, scaling
from pytest_gpuperf.model.value import Seconds, Value
from pytest_gpuperf.report.json import codec, document

FOLDER = Path(document.__file__).with_name("schemas")
DRAFT = "https://json-schema.org/draft/2020-12/schema"
# What types cannot say of a record; report/json/document.py checks it when a report is read or written.
REASON = {
    "if": {"properties": {"status": {"enum": ["passed", "recorded"]}}},
    "then": {"properties": {"reason": {"type": "null"}}},
    "else": {"properties": {"reason": {"type": "string", "minLength": 1}}},
}


def main() -> int:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where a file is not so")
    arguments = parser.parse_args()
    stale = [path for path, text in schemas().items() if not path.exists() or path.read_text() != text]
    for path in stale:
        print(f"{path} {'is not what the types say' if arguments.check else 'is written'}")
        if not arguments.check:
            path.write_text(schemas()[path], encoding="utf-8")
    return 1 if stale and arguments.check else 0


def schemas() -> dict[Path, str]:
    """Return the text of the published schema, by the path of its file."""
    text = json.dumps(published(record.Run, "report"), indent=2) + "\n"
    return {FOLDER / f"report-{document.VERSION}.json": text}


def published(kind: type, name: str) -> dict[str, Any]:
    _, parts = msgspec.json.schema_components([kind], schema_hook=samples, ref_template="#/$defs/{name}")
    for part, cls in classes(kind).items():
        strictly(parts[part], cls)
    if "Record" in parts:
        parts["Record"] |= REASON
    return {
        "$schema": DRAFT,
        "$id": f"urn:pytest-gpuperf:{name}:{document.VERSION}",
        "title": f"pytest-gpuperf {name}",
        **parts.pop(kind.__name__),
        "$defs": dict(sorted(parts.items())),
    }


def samples(kind: type) -> dict[str, Any]:
    """Return the schema of the one kind of value that msgspec does not know."""
    if kind is not array:
        raise NotImplementedError
    return {"type": "array", "items": msgspec.json.schema(Seconds)}


def classes(kind: type) -> dict[str, type]:
    """Return the classes that a document is made of, by name."""
    known = [vars(part) for part in (comparison, demand, launch, measurement, offload, record, roof, scaling)]
    named = msgspec.json.schema_components([kind], schema_hook=samples)[1]
    return {name: next(part[name] for part in known if name in part) for name in named}


def strictly(part: dict[str, Any], cls: type) -> None:
    """Refuse what a class does not name, ask for all that it names from the first on, and describe it."""
    del part["title"]
    described = descriptions(cls)
    properties = {name: {**part["properties"][name], **described[name]} for name in part["properties"]}
    for each in properties.values():
        each.pop("default", None)
    part["description"] = inspect.cleandoc(cls.__doc__ or "").replace("\n\n", " ").replace("\n", " ")
    required = [name for name in properties if name not in codec.ADDED]
    part |= {"properties": properties, "required": required, "additionalProperties": False}


def descriptions(cls: type) -> dict[str, dict[str, str]]:
    """Return the string below each field, an attribute docstring as PEP 257 has it, by the field's name."""
    inherited = {} if cls.__base__ is Value else descriptions(cls.__base__)
    body = next(
        node.body for node in ast.parse(inspect.getsource(cls)).body if isinstance(node, ast.ClassDef)
    )
    return inherited | {
        field.target.id: {"description": " ".join(text.value.value.split())}
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }


if __name__ == "__main__":
    sys.exit(main())
