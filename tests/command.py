"""Reports that the tests of the commands write and read."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import factories
import pytest
from factories import HERE, recorded, run_of, speedup_within
from msgspec.structs import replace
from published import JUDGE

from pytest_gpuperf.cli import main
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.report.json import document

NO_GPU = replace(HERE, gpu=None, gpu_reason="no GPU was found")
HOSTILE = "test_a.py::test[\x1b[31m\r\nall is well\x07]"


def record(nodeid="test_a.py::test_1", value=10.0, **changes) -> Record:
    return recorded(nodeid, value, **{"speedup": speedup_within(value, 0.02), **changes})


def skipped(nodeid="test_a.py::test_1", **changes) -> Record:
    return factories.skipped(nodeid, **{"reason": NO_GPU.gpu_reason, **changes})


def written(name, *records, **changes) -> str:
    """Write a report where the command is called, and return its name."""
    Path(name).write_text(document.text(run_of(*records, **changes)), encoding="utf-8")
    return name


def exported(run, format) -> str:
    """Return a run in a format, as `gpuperf show` writes it."""
    with TemporaryDirectory() as folder:
        report, path = Path(folder, "r.json"), Path(folder, "exported")
        report.write_text(document.text(run), encoding="utf-8")
        main(["show", str(report), f"--export={format}:{path}"])
        return path.read_bytes().decode() if path.exists() else ""


def read(name) -> dict:
    content = json.loads(Path(name).read_text(encoding="utf-8"))
    JUDGE.validate(content)
    return content


def values(name) -> dict:
    """Return the speedups in a report by node id."""
    found = read(name)["records"]
    return {each["nodeid"]: each["speedup"] and each["speedup"]["value"] for each in found}


def usage(capsys, *arguments) -> str:
    """Return how a wrong call is answered."""
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    assert end.value.code == 2
    return capsys.readouterr().err


def inputs() -> None:
    """Write what the commands that write are called with."""
    written("r.json", record())
    written("one.json", record())
    written("two.json", record("test_a.py::test_2"))
    journaled(record())


def journaled(*records, environment=HERE) -> None:
    """Write the journal of a run that was killed."""
    run = json.loads(document.text(run_of(*records, environment=environment)))
    heading = {"started": run["started"], "environment": run["environment"]}
    lines = [*map(json.dumps, [heading, *run["records"]]), '{"cut o']
    Path("r.journal").write_text("\n".join(lines), encoding="utf-8")


def update(call, *arguments):
    code, lines, err = call("baseline", "update", *arguments)
    assert err == ""
    return code, lines
