"""Text -> run, after the published schema has proved it as any other tool would: with jsonschema."""

import json
from contextlib import suppress
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.model.record import Run
from pytest_gpuperf.report.json import codec, document

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, ValidationError

_LONGEST_VALUE = 80  # characters of a wrong value: it may be the whole document


def parse(content: bytes) -> Run:
    """Return the run in a report's text, in UTF-8; raise GpuPerfError, with the place, for a wrong one.

    What a schema cannot say is left to the types of a report: what is no report of this version, numbers that
    are not finite, keys and node ids that are there twice.
    """
    with suppress(ValueError, RecursionError):  # it is no JSON, which `document.parse` says
        _prove(json.loads(content.removeprefix(document.MARK)))
    return document.parse(content)


def _prove(found: Any) -> None:
    if not isinstance(found, dict) or found.get("schema_version") != document.VERSION:
        return
    from jsonschema.exceptions import best_match  # which takes longer to import than all else

    wrong: ValidationError | None = best_match(_validator().iter_errors(found))
    if wrong is not None:
        raise codec.broken(wrong.json_path, _cause(wrong))


@cache
def _validator() -> "Draft202012Validator":
    from jsonschema import Draft202012Validator

    name = f"report-{document.VERSION}.json"
    text = resources.files(__package__).joinpath("schemas", name).read_text(encoding="utf-8")
    published: dict[str, Any] = json.loads(text)
    return Draft202012Validator(published)


def _cause(wrong: "ValidationError") -> str:
    """Return what jsonschema says, with the wrong value cut."""
    value = repr(wrong.instance)
    cut = value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}..."
    message: str = wrong.message
    return message.replace(value, cut, 1)
