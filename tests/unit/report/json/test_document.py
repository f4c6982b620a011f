"""Documents: a run becomes a document that keeps the published schema, and comes back as it was."""

import json
import re
import runpy
import sys
from array import array
from copy import deepcopy
from math import inf, nan
from pathlib import Path

import factories
import pytest
from cases import for_each
from factories import HERE, speedup, threshold
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from pytest_gpuperf.model.comparison import (
    Absent,
    Commit,
    Comparison,
    GateFailure,
    GateNote,
    GateResult,
    Tolerance,
)
from pytest_gpuperf.model.demand import Demand, Pairing, SizeGroup, UnknownValue
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import (
    Copies,
    DeviceInfo,
    Estimate,
    Inspection,
    Interference,
    Measurement,
    Memory,
    ResultCheck,
    Transfer,
)
from pytest_gpuperf.model.offload import (
    BreakEven,
    Diagnosis,
    Offload,
    Point,
    Threshold,
)
from pytest_gpuperf.model.record import STATUSES, Clocks, Environment, Merged, Note, Record, Run, ThreadPool
from pytest_gpuperf.report.json import codec, document

CPU = replace(factories.CPU, name="a processor")
GPU = DeviceInfo(kind="gpu", backend="sycl", name="a device", library="dpnp 1, driver 2", emulated=True)


def measurement(device: DeviceInfo, *samples: float, **changes) -> Measurement:
    known = {
        "block_calls": 3,
        "warmup": 0.1,
        "warmup_calls": 9,
        "synchronize_cost": 1e-6,
        "inspection": Inspection(host_time=1e-4, device_time=0.9e-3),
    }
    return factories.measurement(device, *samples, **{**known, **changes})


SPEEDUP = speedup(0.1, 0.05, None, rounds=3, sampling="variants")
CALLS = Estimate(value=3, low=1, high=None)


def full_offload() -> Offload:
    return Offload(
        worth=None,
        faster=True,
        reason="in doubt",
        regime="once",
        by_latency=True,
        never=SPEEDUP,
        once=SPEEDUP,
        always=SPEEDUP,
        latency=SPEEDUP,
        break_even_calls=BreakEven(transfer=CALLS, first_call=None, both=CALLS, reason="never"),
    )


def full_threshold() -> Threshold:
    size = Estimate(value=1.5, low=1.1, high=None)
    points = (
        Point(size=1, nodeid="a", cpu=0.1, gpu=None),
        Point(
            size=2.5,
            nodeid="b",
            cpu=0.1,
            gpu=0.2,
            won=True,
            speedup=size,
            never=size,
            once=size,
            always=size,
            latency=size,
        ),
    )
    return threshold(
        name="test_x",
        at_most=2,
        regime="once",
        status="failed",
        reason="too late",
        largest_not_won=1,
        smallest_won=2.5,
        curve=points,
    )


def full_environment() -> Environment:
    clocks = Clocks(sm_mhz=1980, memory_mhz=None, celsius=40, watts=99.5, throttle=("power cap",))
    return Environment(
        host={"name": "here", "memory": 1 << 30},
        cpu={"name": "a processor", "logical": 4, "quota": 1.5, "governor": None},
        gpu=replace(
            GPU,
            memory=1 << 30,
            driver="13.0",
            runtime="13.0",
            reduced_precision="TF32",
            reduced_convolutions="TF32 there",
            reduced_eps=2**-10,
        ),
        gpu_reason=None,
        python="3.11.7",
        packages={"numpy": "2.0"},
        thread_pools=(ThreadPool(library="openblas", api="blas", threads=4, version="0.3"),),
        variables={"OMP_NUM_THREADS": "4"},
        clocks_at_start=clocks,
        clocks_at_end=clocks,
        clocks_reason=None,
    )


def full_record() -> Record:
    return Record(
        nodeid="tests/test_é.py::test_x[1-\u2028]",
        status="failed",
        reason="speedup 0.1x, required at least 3x",
        demand=Demand(min=3, max=4.5, rtol=1e-3, atol=0.0, max_time=2),
        scope="call",
        cpu=measurement(CPU, 0.1, 0.2, 1 / 3, setup=0.01, inspection=None),
        size_group=SizeGroup(name="test_x", parameter="n", size=2, sizes=(1, 2.5), at_most=2),
        gpu=measurement(
            GPU,
            1e-3,
            2e-3,
            latencies=array("d", [3e-3]),
            dtypes=("float32",),
            shapes=("10x2",),
            block_time=1e-3,
            inspection=Inspection(
                host_time=1e-4,
                device_time=9e-4,
                outside_time=0.0,
                synchronizes=False,
                allocations=0,
                memory=80,
            ),
        ),
        transfer=Transfer(
            h2d=Copies(bytes=80, arrays=1, samples=array("d", [1e-6]), memory="pinned"),
            d2h=Copies(bytes=0, arrays=0),
            made=8,
        ),
        offload=full_offload(),
        memory=Memory(peak=160, inputs=80),
        diagnosis=(Diagnosis(code="float64", sentence="it is", numbers={"dtypes": "float64", "x": 1.5}),),
        dropped_rounds=1,
        speedup=SPEEDUP,
        check=ResultCheck(agreed=True, error=1e-9, tolerance=1e-3, reason=None),
        check_elapsed=0.01,
        rounds_elapsed=0.2,
        elapsed=1.5,
        interference=Interference(kind="unstable_cpu_times", own_share=0.25, median=0.2, fastest=0.05),
        gpu_interference=Interference(kind="cpu_contention", own_share=0.5, waited=1.5, threads=2),
        notes=(
            Note(code="traced", text="it was traced"),
            Note(code="interference", text="another"),
        ),
        pairing=Pairing(kind="gpu", library="torch", partner="test_x[cpu]"),
        source="all",
        reruns=2,
        turn_wait=0.25,
        comparisons=(full_comparison(),),
    )


def full_comparison() -> Comparison:
    estimate = Estimate(value=1.5, low=1.0, high=None)
    return Comparison(
        metric="speedup",
        tolerance=0.1,
        outcome="not_comparable",
        reason="another machine",
        baseline=estimate,
        found=estimate,
        ratio=estimate,
        differences=("CPU: EPYC, Xeon",),
    )


def full_gate() -> GateResult:
    return GateResult(
        baseline="base.json",
        started="2026-01-01T00:00:00+00:00",
        tolerances=(Tolerance(metric="speedup", share=0.1),),
        failures=(GateFailure(code="tests_missing", text="test_y is missing"),),
        notes=(GateNote(code="baseline_stale", text="a stale baseline"),),
        baseline_tests=3,
        absent=(Absent(name="test_y", metric="speedup", cause="skipped", reason="not today"),),
    )


def short_record(status: str, reason: str | None) -> Record:
    return Record(nodeid=f"test_{status}", status=status, reason=reason, demand=Demand())


def run_of(*records: Record, **changes) -> Run:
    environment = replace(HERE, gpu=GPU, packages={"numpy": "2.0"})
    arguments = ("--gpuperf-gpu=sycl:cpu", "--gpuperf-require-gpu")
    return factories.run_of(*records, **{"environment": environment, "arguments": arguments, **changes})


def every_status() -> Run:
    reasons = {status: None if status in ("passed", "recorded") else "why" for status in STATUSES}
    return run_of(full_record(), *(short_record(status, reason) for status, reason in reasons.items()))


def published() -> dict:
    return document.published_schema("report")


def document_of(run: Run) -> dict:
    return json.loads(document.text(run))


def set_in(content, path, value) -> dict:
    """Return a copy of a document with the value at `path` replaced."""
    changed = deepcopy(content)
    *way, last = path
    place = changed
    for step in way:
        place = place[step]
    place[last] = value
    return changed


def properties_in(part, path="$"):
    """Yield every property that a schema names, with its place."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name == "properties":
                yield from ((f"{path}.{key}", described) for key, described in value.items())
            if name not in ("if", "then", "else"):
                yield from properties_in(value, f"{path}.{name}")
    elif isinstance(part, list):
        for index, value in enumerate(part):
            yield from properties_in(value, f"{path}[{index}]")


def test_the_published_schema_is_a_schema_of_its_draft():
    assert published()["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(published())


def test_the_published_schemas_are_what_the_types_say(monkeypatch):
    script = Path(__file__).parents[4] / ".ci" / "generate_schemas.py"
    monkeypatch.setattr(sys, "argv", [str(script), "--check"])
    assert runpy.run_path(str(script))["main"]() == 0


def test_every_property_says_what_it_is():
    def says(part):
        return {"description", "$ref", "const", "enum"} & set(part) or any(map(says, part.get("anyOf", [])))

    found = dict(properties_in(published()))
    assert len(found) > 60
    assert [place for place, part in found.items() if not says(part)] == []


def test_every_object_in_the_schema_refuses_what_it_does_not_name():
    def objects(part):
        if isinstance(part, dict):
            if "properties" in part and part.get("type") == "object":
                yield part
            for value in part.values():
                yield from objects(value)

    assert all(part["additionalProperties"] is False for part in objects(published()))
    assert all(set(part["required"]) == set(part["properties"]) for part in objects(published()))


def test_a_run_with_records_of_every_status_is_valid():
    document.validate(document_of(every_status()))


def test_an_empty_run_is_valid():
    assert document.load(json.loads(document.text(run_of()))) == run_of()


def test_a_run_without_a_gpu_is_valid():
    run = every_status()
    without = replace(run, environment=replace(run.environment, gpu=None, gpu_reason="no driver"))
    assert document.load(json.loads(document.text(without))) == without


def test_a_run_that_was_written_and_read_is_the_same_run():
    run = replace(every_status(), complete=False)
    assert run == document.load(json.loads(document.text(run)))


def test_a_record_that_was_written_and_read_is_the_same_record():
    record = full_record()
    assert record == codec.load(json.loads(json.dumps(codec.dump(record))), Record)


def test_the_text_is_plain_ascii_and_ends_its_line():
    text = document.text(every_status())
    assert text.isascii()
    assert text.endswith("}\n")


def test_the_paths_that_tools_rely_on_are_there():
    content = document_of(every_status())
    record = content["records"][0]
    assert content["schema_version"] == "1.0"
    assert record["demand"] | {"min": 3, "max": 4.5, "transfer": "never"} == record["demand"]
    assert record["cpu"]["device"]["kind"] == "cpu"
    assert record["cpu"]["median"] == 0.2
    assert record["gpu"]["samples"] == [1e-3, 2e-3]
    assert record["speedup"]["high"] is None
    assert content["summary"] == dict.fromkeys(STATUSES, 1) | {"failed": 2}


def test_a_measurement_without_samples_has_no_median():
    record = replace(full_record(), gpu=measurement(GPU))
    content = document_of(run_of(record))
    assert content["records"][0]["gpu"]["median"] is None
    assert document.load(content).records == (record,)


@for_each(
    ("place", "path", "value"),
    [
        ("$.records[0].status", ("records", 0, "status"), "green"),
        ("$.records[0].cpu", ("records", 0, "cpu"), 5),
        ("$.records[0].demand.min", ("records", 0, "demand", "min"), 0),
        ("$.records[0].speedup.rounds", ("records", 0, "speedup", "rounds"), 0),
        ("$.records[0].notes[1]", ("records", 0, "notes", 1), None),
        ("$.records[0].notes[1].code", ("records", 0, "notes", 1, "code"), "hearsay"),
        ("$.records[0].reason_code", ("records", 0, "reason_code"), "because"),
        ("$.records[0].interference.own_share", ("records", 0, "interference", "own_share"), 1.5),
        ("$.gate.failures[0].code", ("gate", "failures", 0, "code"), "hearsay"),
        ("$.gate.notes[0].code", ("gate", "notes", 0, "code"), "hearsay"),
        ("$.records[1].elapsed", ("records", 1, "elapsed"), -1.0),
        ("$.summary.failed", ("summary", "failed"), -1),
        ("$.environment.python", ("environment", "python"), None),
        ("$.environment.packages.numpy", ("environment", "packages", "numpy"), 2),
        ("$.environment.cpu.usable", ("environment", "cpu", "usable"), [4]),
        ("$.records[0].diagnosis[0].numbers.x", ("records", 0, "diagnosis", 0, "numbers", "x"), True),
        ("$.records[0]", ("records", 0, "surprise"), 1),
        ("$.records[0].demand", ("records", 0, "demand", "surprise"), 1),
        ("$.complete", ("complete",), "yes"),
    ],
)
def test_a_tampered_document_is_refused_with_the_place(place, path, value):
    content = set_in(document_of(replace(every_status(), gate=full_gate())), path, value)
    with pytest.raises(GpuPerfError, match="breaks its schema at") as refused:
        document.load(content)
    assert f"at {place}: " in str(refused.value)


@for_each(
    ("place", "path", "value"),
    [
        ("records[0].cpu.samples[1]", ("cpu", "samples", 1), "fast"),
        ("records[0].cpu.block_calls", ("cpu", "block_calls"), 0),
        ("records[0].speedup.value", ("speedup", "value"), 0),
        ("records[0].check.agreed", ("check", "agreed"), "yes"),
    ],
)
def test_a_tampered_measurement_is_refused_with_the_place(place, path, value):
    content = set_in(document_of(every_status()), ("records", 0, *path), value)
    with pytest.raises(GpuPerfError, match="breaks its schema at") as refused:
        document.load(content)
    assert place in str(refused.value)


@for_each("missing", ["nodeid", "status", "reason", "demand", "speedup", "notes"])
def test_a_document_with_a_part_missing_is_refused(missing):
    content = document_of(every_status())
    del content["records"][0][missing]
    with pytest.raises(GpuPerfError, match=rf"at \$\.records\[0\]: .* required field `{missing}`"):
        document.load(content)


@for_each("status", ["passed", "recorded"])
def test_a_reason_beside_a_pass_breaks_the_schema(status):
    with pytest.raises(GpuPerfError, match=r"\.reason"):
        document.text(run_of(short_record(status, "it was fast")))


@for_each("status", sorted(set(STATUSES) - {"passed", "recorded"}))
@for_each("reason", [None, ""])
def test_anything_but_a_pass_without_a_reason_breaks_the_schema(status, reason):
    with pytest.raises(GpuPerfError, match=r"\.reason"):
        document.text(run_of(short_record(status, reason)))


@for_each("wrong", [nan, inf, -inf])
@for_each(
    "place",
    [
        lambda record, wrong: replace(record, elapsed=wrong),
        lambda record, wrong: replace(record, gpu=measurement(GPU, 1e-3, wrong)),
        lambda record, wrong: replace(record, check=replace(record.check, error=wrong)),
        lambda record, wrong: replace(record, speedup=replace(record.speedup, value=wrong)),
    ],
)
def test_what_is_not_a_number_is_never_written(place, wrong):
    with pytest.raises(GpuPerfError):
        document.text(run_of(place(full_record(), wrong)))


@for_each("version", ["1.7", "1.10", "2.0", "9.9", "10.0"])
def test_a_newer_version_asks_for_an_update(version):
    content = document_of(every_status()) | {"schema_version": version}
    said = f"its schema_version {version} is newer than 1.0; update pytest-gpuperf"
    with pytest.raises(GpuPerfError, match=f"^{re.escape(said)}$"):
        document.load(content)


NO_VERSIONS = ["0.9", "", "one", "1", "1.", "1.x", "1.0\n", "\u0661.\u0669", "9" * 5000 + ".0"]


@for_each("version", NO_VERSIONS)
def test_what_is_no_version_of_ours_is_shown_and_a_report_is_asked_for(version):
    content = document_of(every_status()) | {"schema_version": version}
    with pytest.raises(
        GpuPerfError, match=r"its schema_version is .*; name one that --gpuperf-json wrote$"
    ) as refused:
        document.load(content)
    assert repr(version)[:80] in str(refused.value)
    assert 200 > len(str(refused.value))


NO_REPORTS = [
    [],
    None,
    "text",
    5,
    {},
    {"history_version": "1.0"},
    *({"schema_version": each} for each in (None, 1.0)),
]


@for_each("content", NO_REPORTS)
def test_what_is_no_report_is_called_so(content):
    with pytest.raises(
        GpuPerfError,
        match=r"^this is no report: (it has no schema_version|its schema_version is 1\.0); name one that ",
    ):
        document.load(content)


def test_a_run_with_every_value_in_it_comes_back_as_it_was():
    run = run_of(full_record(), environment=full_environment(), thresholds=(full_threshold(),))
    run = replace(
        run,
        unmarked=2,
        unknown_values=(UnknownValue(parameter="backend", value="'dask'", tests=2),),
        merged=Merged(reports=("a.json", "b.json"), hosts_differ=True, differences=("host: a, b",)),
        commit=Commit(
            id="1a2b", branch="main", time="2026-01-01T00:00:00+00:00", changed=False, url="https://x/1a2b"
        ),
        job="https://x/job/7",
        gate=full_gate(),
    )
    assert run == document.load(json.loads(document.text(run)))


@for_each("content", [None, [], {}, {"records": None}])
def test_what_has_no_list_of_records_breaks_the_published_schema(content):
    with pytest.raises(GpuPerfError, match=re.escape("it breaks its schema at $")):
        document.validate(content)


def test_infinity_breaks_the_published_schema_too():
    content = document_of(every_status())
    index, record = next((index, each) for index, each in enumerate(content["records"]) if each["cpu"])
    record["cpu"]["warmup"] = inf
    with pytest.raises(GpuPerfError, match=re.escape(f"$.records[{index}].cpu.warmup")):
        document.validate(content)
