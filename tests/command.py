"""Reports that the tests of the commands write and read, and commands in processes of their own."""

import json
import subprocess
import sys
from array import array
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_gpuperf.cli import main
from pytest_gpuperf.model.comparison import GateResult, Tolerance
from pytest_gpuperf.model.demand import Demand, Pairing
from pytest_gpuperf.model.measurement import DeviceInfo, Measurement, Speedup
from pytest_gpuperf.model.record import Environment, Record, Run
from pytest_gpuperf.report.json import codec, document, schema

CPU = DeviceInfo(kind="cpu", backend="numpy", name="a processor", library="numpy 2")

GPU = DeviceInfo(kind="gpu", backend="cupy", name="a GPU", library="cupy 13")

HERE = Environment(
    host={"name": "here"},
    cpu={"name": "a processor", "usable": 8},
    gpu=GPU,
    gpu_reason=None,
    python="3.11.7",
    packages={},
)

ELSEWHERE = replace(HERE, cpu={"name": "another", "usable": 8})

NO_GPU = replace(HERE, gpu=None, gpu_reason="no GPU was found")

NONE = "no GPU was found"

GATE = GateResult(baseline="base.json", started=None, tolerances=(Tolerance(metric="speedup", share=0.1),))

HOSTILE = "test_a.py::test[\x1b[31m\r\nall is well\x07]"


def measured(on, seconds) -> Measurement:
    return Measurement(
        device=on,
        samples=array("d", [seconds] * 12),
        block_calls=1,
        setup=None,
        first_call=0.1,
        warmup=0.1,
        warmup_calls=9,
        steady=True,
        synchronize_cost=0.0,
    )


def speedup(value, width=1.02) -> Speedup:
    return Speedup(
        value=value,
        low=value / width,
        high=value * width,
        confidence=0.95,
        resolution=0.01,
        rounds=12,
        evidence=None,
        autocorrelation=None,
    )


def record(nodeid="test_a.py::test_1", value=10.0, **changes) -> Record:
    known = {
        "nodeid": nodeid,
        "status": "recorded",
        "reason": None,
        "demand": Demand(),
        "scope": "call",
        "cpu": measured(CPU, 10e-3),
        "gpu": measured(GPU, 10e-3 / value),
        "speedup": speedup(value),
    }
    return Record(**{**known, **changes})


def skipped(nodeid="test_a.py::test_1", **changes) -> Record:
    absent = dict.fromkeys(("cpu", "gpu", "speedup", "scope"))
    return record(nodeid, **{**absent, "status": "skipped", "reason": NONE, **changes})


def run_of(*records, environment=HERE, started="2026-01-01T00:00:00+00:00", **changes) -> Run:
    return Run(environment=environment, started=started, records=records, **changes)


def written(name, *records, **changes) -> str:
    """Write a report where the command is called, and return its name."""
    Path(name).write_text(document.text(run_of(*records, **changes)), encoding="utf-8")
    return name


def read(name) -> dict:
    content = json.loads(Path(name).read_text(encoding="utf-8"))
    schema.validate(content)
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


def apart(*arguments, first="", **options):
    """Run the command in a process of its own, after the line `first`."""
    program = f"{first}\nimport sys; from pytest_gpuperf.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, *map(str, arguments)]
    options = {"capture_output": True, "text": True, "check": False, "timeout": 60, **options}
    return subprocess.run(command, **options)


def inputs() -> None:
    """Write what the commands that write are called with."""
    written("r.json", record())
    for kind in ("cpu", "gpu"):
        absent = {"gpu" if kind == "cpu" else "cpu": None, "speedup": None}
        written(f"{kind}.json", record(pairing=Pairing(kind=kind, library="numpy"), **absent))
    journaled(record())


def journaled(*records, environment=HERE) -> None:
    """Write the journal of a run that was killed."""
    heading = {"started": run_of().started, "environment": codec.dump(environment)}
    lines = [json.dumps(heading), *(json.dumps(codec.dump(each)) for each in records), '{"cut o']
    Path("r.journal").write_text("\n".join(lines), encoding="utf-8")


def update(call, *arguments):
    code, lines, err = call("baseline", "update", *arguments)
    assert err == ""
    return code, lines
