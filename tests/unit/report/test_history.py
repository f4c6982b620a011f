"""History: a run is kept as a report without samples, and whatever else is in the folder is named."""

import json
import os
from array import array
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import factories
import pytest
from cases import for_each
from factories import STEP, copies, histories, history_of, measurement, record, run_of, skipped
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_gpuperf.gate.fingerprint import key
from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.demand import Demand, Pairing
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Transfer
from pytest_gpuperf.model.record import STATUSES
from pytest_gpuperf.report import reader
from pytest_gpuperf.report.history import History, add, dump, read, series
from pytest_gpuperf.report.json import document

CPU = replace(factories.CPU, library="numpy 2.4.1")
GPU = replace(
    factories.GPU,
    library="cupy 13.3.0, CUDA 13.0, driver for 13.0",
    driver="for CUDA 13.0",
    runtime="CUDA 13.0",
)
HERE = replace(factories.HERE, cpu={"name": "EPYC", "logical": 64, "usable": 16, "quota": None}, gpu=GPU)
COMMIT = Commit(id="0123456789abcdef0123", branch="main", time="2026-01-01T00:00:00+01:00", changed=False)
MEASURED = record(
    "test_a",
    cpu=measurement(CPU, 0.1, 0.2, 1 / 3, latencies=array("d", [0.3, 0.5, 0.4])),
    gpu=measurement(GPU, 0.01, 0.02, 0.03, block_calls=1),
    transfer=Transfer(h2d=copies(1.0, 2.0, 4.0), d2h=copies(bytes=0), loop=array("d", [5.0, 7.0, 6.0])),
)
RUN = run_of(
    MEASURED,
    skipped("test_é[\u2028\n]"),
    environment=HERE,
    started="2026-01-02T03:04:05+00:00",
    commit=COMMIT,
)


def results(found: History) -> dict[str, list]:
    """Return the points of each test, whatever they were made on."""
    return {nodeid: points for tests in found.points.values() for nodeid, points in tests.items()}


def kept(folder: Path, *records, **changes) -> dict[str, list]:
    """Return what a history has of the run that left these records."""
    add(folder, run_of(*records, **{"environment": HERE, **changes}))
    return results(read(folder))


# What is kept of a run.


def test_a_file_is_a_report_of_the_same_run_without_samples(tmp_path):
    run = reader.load_report(add(tmp_path, RUN))
    assert replace(RUN, records=()) == replace(run, records=())
    found, before = run.records[0], RUN.records[0]
    assert [[0.2], [0.4], [0.02]] == [
        [*each] for each in (found.cpu.samples, found.cpu.latencies, found.gpu.samples)
    ]
    assert [[2.0], [], [6.0]] == [
        [*each] for each in (found.transfer.h2d.samples, found.transfer.d2h.samples, found.transfer.loop)
    ]
    whole = replace(found, cpu=before.cpu, gpu=before.gpu, transfer=before.transfer)
    assert (before, *RUN.records[1:]) == (whole, *run.records[1:])
    assert (before.cpu.median, before.cpu.latency, before.transfer.median) == (
        *(found.cpu.median, found.cpu.latency, found.transfer.median),
    )
    document.validate(json.loads(document.text(run)))


def test_the_base_of_a_scaling_test_keeps_its_median_alone(tmp_path):
    before = factories.scaled(2, 0.8)
    base = measurement(GPU, 1.0, 3.0, 2.0)
    run = run_of(replace(before, scaling=replace(before.scaling, base=base)))
    assert [2.0] == [*reader.load_report(add(tmp_path, run)).records[0].scaling.base.samples]


def test_a_point_has_the_start_the_commit_the_medians_and_the_range(tmp_path):
    (point,) = kept(tmp_path, MEASURED, started=RUN.started, commit=COMMIT)["test_a"]
    assert (RUN.started, COMMIT, "passed", 0.2, 0.02) == (
        *(point.started, point.commit, point.status, point.cpu, point.gpu),
    )
    assert MEASURED.speedup.estimate == point.speedup


def test_tests_without_a_speedup_are_kept_with_how_they_ended_and_deselected_ones_are_not(tmp_path):
    several = [
        skipped(f"test_{status}", status=status)
        for status in STATUSES
        if status not in ("passed", "recorded")
    ]
    found = kept(tmp_path, *several, skipped("test_out", reason_code="deselected"))
    assert {each.nodeid: each.status for each in several} == {
        name: one.status for name, (one,) in found.items()
    }


def test_a_cpu_variant_stands_with_its_gpu_variant(tmp_path):
    cpu = record("test_a[cpu]", gpu=None, speedup=None, pairing=Pairing(kind="cpu", library="numpy"))
    gpu = record("test_a[gpu]", pairing=Pairing(kind="gpu", library="cupy", partner="test_a[cpu]"))
    assert ["test_a[gpu]"] == [*kept(tmp_path, cpu, gpu)]


def test_a_fingerprint_is_that_of_the_test_s_devices_or_of_the_run_s_where_it_was_not_measured(tmp_path):
    torch = record("test_t", gpu=measurement(replace(GPU, backend="torch"), 1.0))
    add(tmp_path, run_of(MEASURED, torch, skipped("test_b", status="error"), environment=HERE))
    (ours, tests), (other, others) = read(tmp_path).points.items()
    assert (key(HERE, CPU, GPU), ["test_a", "test_b"], ["test_t"]) == (ours, [*tests], [*others])
    assert "backend torch" in other


def test_the_fingerprint_is_of_all_that_a_speedup_depends_on_but_the_test():
    expected = (
        "CPU EPYC, processors 16, python 3.11, CPU backend numpy, CPU library numpy 2.4, GPU H200, "
        "GPU backend cupy, GPU library cupy 13.3, GPU driver for CUDA 13, GPU runtime CUDA 13"
    )
    assert expected == key(HERE, CPU, GPU) == key(HERE, CPU, GPU, Demand(min=3, max_time=2))
    assert expected == key(HERE, CPU, replace(GPU, driver="for CUDA 13.2", runtime="CUDA 13.1", memory=80))
    others = [
        key(replace(HERE, variables={"OMP_NUM_THREADS": "1"}), CPU, GPU),
        key(HERE, CPU, replace(GPU, emulated=True)),
        key(HERE, CPU, replace(GPU, reduced_precision="TF32")),
        *(key(HERE, CPU, GPU, each) for each in (Demand(transfer="always"), Demand(latency=True))),
        key(HERE, CPU, GPU, Demand(transfer="once", calls=10)),
    ]
    assert 7 == len({expected, *others})
    assert "python 3.11, GPU none" == key(replace(HERE, cpu={}, gpu=None), None, None)


# Writing.


@for_each(
    ("id", "expected"),
    [
        (COMMIT.id, "0123456789ab"),
        ("../../etc/x", "etcx"),
        ("\0/", "unknown"),
        ("é" * 40, "unknown"),
        ("a", "a"),
    ],
)
def test_the_name_of_a_file_has_time_and_commit_and_stays_in_the_folder(tmp_path, id, expected):
    folder = tmp_path / "a" / "b"
    path = add(folder, replace(RUN, started="2026-01-02T03:04:05+02:00", commit=Commit(id=id)))
    time, commit, rest = path.name.split("-")
    assert (folder, "20260102T010405Z", expected, 17) == (path.parent, time, commit, len(rest))
    assert "unknown" == add(folder, replace(RUN, commit=None)).name.split("-")[1]


def test_runs_and_names_are_in_the_order_of_time(tmp_path):
    times = ["2026-01-02T00:00:00+02:00", "2026-01-01T23:00:00+00:00", "2026-01-01T22:30:00+00:00"]
    paths = [add(tmp_path, replace(RUN, started=started)) for started in times]
    assert [paths[0], paths[2], paths[1]] == sorted(paths)
    paths[1].rename(tmp_path / "0")  # whatever its name is
    points = results(read(tmp_path))["test_a"]
    assert [times[0], times[2], times[1]] == [point.started for point in points]


def test_runs_that_are_written_at_once_lose_nothing(tmp_path):
    with ThreadPoolExecutor(4) as writers:
        written = {*writers.map(add, [tmp_path] * 60, [RUN] * 60)}
    assert (60, 60, {}) == (len(written), len(read(tmp_path).started), read(tmp_path).rejected)


def test_a_reader_never_sees_half_a_file(tmp_path, monkeypatch):
    seen = []
    moved = Path.replace

    def move(path, target):
        seen.append(read(tmp_path))
        return moved(path, target)

    monkeypatch.setattr(Path, "replace", move)
    add(tmp_path, RUN)
    assert [History()] == seen


@for_each("started", ["yesterday", "0001-01-01T00:00:00+23:00"])
def test_a_run_that_began_at_no_time_is_not_written(tmp_path, started):
    with pytest.raises(GpuPerfError, match="which is not a time"):
        add(tmp_path, replace(RUN, started=started))
    assert [] == list(tmp_path.iterdir())


# Reading.


def test_no_folder_is_an_error_that_says_how_to_make_one_and_an_empty_one_is_an_empty_history(tmp_path):
    with pytest.raises(GpuPerfError, match="--gpuperf-history"):
        read(tmp_path / "nowhere")
    (tmp_path / ".20260101.json.17.tmp").write_text("{", encoding="utf-8")  # of a writer
    assert History() == read(tmp_path)


def test_any_report_is_a_run_of_a_history(tmp_path):
    (tmp_path / "report").write_text(document.text(RUN), encoding="utf-8-sig")  # with samples, and a mark
    assert [0.2] == [point.cpu for point in results(read(tmp_path))["test_a"]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "not JSON"),
        (b'{"schema_version": "1.0", "star', "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "at $: "),
        (b'{"a":' * 50_000, "at $: "),
        (b"[" * 900 + b"]" * 900, "no report"),
        (b"1" * 5000, "out of range"),
        (b"null", "no report"),
        (b'{"schema_version": 1.0}', "no report"),
        (b'{"schema_version": "1.0"}', "breaks its schema"),
        (json.dumps({"schema_version": "1.0", "x" * 10_000: 1}).encode(), "breaks its schema"),
        (b'{"schema_version": "1.1"}', "newer than 1.0; update"),
        (b'{"history_version": "1.0"}', "no report"),
    ],
)
def test_a_file_that_is_no_report_is_named(tmp_path, text, reason):
    add(tmp_path, RUN)
    (tmp_path / "other.json").write_bytes(text)
    found = read(tmp_path)
    assert (1, ["other.json"]) == (len(found.started), [*found.rejected])
    assert reason in found.rejected["other.json"]
    assert 200 >= len(found.rejected["other.json"])


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"value":10.0', f'"value":{number}', "")
        for number in ("NaN", "Infinity", "1e999", "-1", "0", '"9"', "true", "[]", "1" + "0" * 400)
    ]
    + [
        ('"nodeid":"test_a"', '"nodeid":"test_b"', "both of 'test_b'"),
        (RUN.started, "yesterday", "'yesterday', which is not a time"),
        (RUN.started, "2026-01-01T22:30:00", "which is not a time with an offset"),
    ],
)
def test_a_report_with_what_cannot_be_is_named(tmp_path, old, new, reason):
    path = add(tmp_path, replace(RUN, records=(MEASURED, replace(MEASURED, nodeid="test_b"))))
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    found = read(tmp_path)
    assert ((), [path.name]) == (found.started, [*found.rejected])
    assert reason in found.rejected[path.name]


def test_a_link_a_folder_a_pipe_and_a_huge_file_are_not_read(tmp_path):
    folder, outside = tmp_path / "history", add(tmp_path / "outside", RUN)
    (folder / "folder").mkdir(parents=True)
    (folder / "link").symlink_to(outside)
    os.mkfifo(folder / "pipe")
    with (folder / "vast").open("wb") as file:
        file.truncate(1 << 40)
    found = read(folder)
    no_file = "it cannot be read: it is not a regular file"
    assert {
        "folder": "it cannot be read: Is a directory",
        "link": "it cannot be read: it is a link",
        "pipe": no_file,
    } == {name: reason for name, reason in found.rejected.items() if name != "vast"}
    assert "it has more than" in found.rejected["vast"]
    assert () == found.started


def test_a_file_that_becomes_a_link_is_not_followed(tmp_path, monkeypatch):
    folder, outside = tmp_path / "history", add(tmp_path / "outside", RUN)
    folder.mkdir()
    (folder / "link.json").symlink_to(outside)
    monkeypatch.setattr(Path, "is_symlink", lambda _: False)
    assert ["link.json"] == list(read(folder).rejected)


def test_a_file_that_cannot_be_read_is_named_and_one_that_vanishes_is_no_error(tmp_path, monkeypatch):
    paths = sorted(add(tmp_path, RUN) for _ in range(3))
    opened = os.open

    def open_late(path, *rest):
        paths[0].unlink(missing_ok=True)
        if Path(path) == paths[1]:
            raise PermissionError(13, "Permission denied")
        return opened(path, *rest)

    monkeypatch.setattr(os, "open", open_late)
    found = read(tmp_path)
    assert (1, {paths[1].name: "it cannot be read: Permission denied"}) == (
        len(found.started),
        found.rejected,
    )


@given(text=st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_are_a_traceback(tmp_path, text):
    (tmp_path / "file.json").write_bytes(text)
    assert ["file.json"] == list(read(tmp_path).rejected)


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_edit_of_a_report_is_a_traceback_and_it_is_a_run_or_named(tmp_path, data):
    content = json.loads(document.text(RUN))
    place = content
    while True:
        name = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not place[name] or not isinstance(place[name], dict | list) or data.draw(st.booleans()):
            break
        place = place[name]
    values = (
        st.sampled_from([10**400, -1, 1e308, "passed", "1.0", {}, [], None, True]) | st.text() | st.floats()
    )
    place[name] = data.draw(values)
    (tmp_path / "file.json").write_text(json.dumps(content), encoding="utf-8")
    found = read(tmp_path)
    assert 1 == len(found.started) + len(found.rejected)
    dump(found)


# Series.


def test_a_change_is_at_the_run_that_has_it_where_others_have_no_speedup():
    (found,) = series(history_of(None, *STEP))
    assert [("2026-01-08", -18)] == [
        (found.timed[change.index].day, round(change.percent)) for change in found.changes
    ]


def test_series_of_different_fingerprints_are_never_mixed():
    found = series(histories(history_of(*[10.0] * 12), history_of(*[5.0] * 12, fingerprint="there")))
    assert [("here", {10.0}, ()), ("there", {5.0}, ())] == [
        (each.fingerprint, {point.speedup.value for point in each.timed}, each.changes) for each in found
    ]


def test_the_object_of_json_has_series_and_changes():
    found = dump(replace(history_of(*STEP), rejected={"a": "b"}))
    assert found == json.loads(json.dumps(found, allow_nan=False))
    assert (12, 10, [{"name": "a", "reason": "b"}]) == (found["runs"], found["fewest"], found["rejected"])
    (one,) = found["series"]
    assert ("here", "test_a", 12) == (one["fingerprint"], one["nodeid"], len(one["findings"]))
    assert {
        "started": "2026-01-01T12:00:00+00:00",
        "commit": {"id": "0000001" + 33 * "f", "branch": "main", "time": None, "changed": None, "url": None},
        "status": "passed",
        "speedup": {"value": 9.9, "low": 9.9 * 0.9, "high": 9.9 * 1.1},
        "cpu": 0.1,
        "gpu": None,
    } == one["findings"][0]
    (change,) = one["changes"]
    assert (6, "2026-01-07T12:00:00+00:00") == (change["index"], change["started"])
    assert pytest.approx((9.9, 8.1, -18.2), abs=0.1) == (change["before"], change["after"], change["percent"])
    assert 0 < change["p"] <= 0.01
