"""The published schema of a report, which readers in other languages check a document by, and a report."""

import json
from importlib import resources
from pathlib import Path

from jsonschema import Draft202012Validator

SCHEMA = json.loads(
    resources.files("pytest_gpuperf.report.json")
    .joinpath("schemas", "report-1.0.json")
    .read_text(encoding="utf-8")
)
JUDGE = Draft202012Validator(SCHEMA)
FULL = json.loads((Path(__file__).parent / "data" / "report-1.0.json").read_bytes())
"""A report with every field of the schema."""
