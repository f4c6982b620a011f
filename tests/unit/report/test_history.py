"""History: a run is kept as a report without samples, and whatever else is in the folder is named."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import factories
import pytest
from factories import measurement, record, run_of, skipped
from msgspec.structs import replace
from published import FULL, JUDGE

from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.demand import Demand, Pairing
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import STATUSES
from pytest_gpuperf.report.history_folder import History, add, read
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
MEASURED = record("test_a", cpu=measurement(CPU, 0.1, 0.2), gpu=measurement(GPU, 0.01, 0.02))
RUN = run_of(MEASURED, environment=HERE, started="2026-01-02T03:04:05+02:00", commit=COMMIT)


def results(found: History) -> dict[str, list]:
    """Return the points of each test, whatever they were made on."""
    return {nodeid: points for tests in found.points.values() for nodeid, points in tests.items()}


def kept(folder: Path, *records) -> dict[str, list]:
    """Return what a history has of the run that left these records."""
    add(folder, replace(RUN, records=records))
    return results(read(folder))


# What is kept of a run.


def thinned(part):
    """Return a part of a document with the median of each list of samples alone."""
    if isinstance(part, dict):
        return {
            name: [median(value)] if name in ("samples", "latencies", "loop") and value else thinned(value)
            for name, value in part.items()
        }
    return [*map(thinned, part)] if isinstance(part, list) else part


def test_a_file_is_a_report_of_the_same_run_without_samples(tmp_path):
    run = document.parse(json.dumps(FULL).encode())
    written = json.loads(add(tmp_path, run).read_text(encoding="utf-8"))
    assert thinned(json.loads(document.text(run))) == written
    JUDGE.validate(written)


def test_a_point_has_the_start_the_commit_and_the_range(tmp_path):
    (point,) = kept(tmp_path, MEASURED)["test_a"]
    assert ("2026-01-02T01:04:05+00:00", COMMIT) == (point.started.isoformat(), point.commit)
    assert ("passed", MEASURED.speedup.estimate) == (point.status, point.speedup)


def test_each_test_is_kept_with_how_it_ended_and_what_it_ran_on_or_else_the_run(tmp_path):
    ends = {f"test_{status}": status for status in STATUSES if status not in ("passed", "recorded")}
    cpu = record("test_a[cpu]", gpu=None, speedup=None, pairing=Pairing(kind="cpu", library="numpy"))
    gpu = record("test_a[gpu]", pairing=Pairing(kind="gpu", library="cupy", partner="test_a[cpu]"))
    torch = record("test_t", cpu=MEASURED.cpu, gpu=measurement(replace(GPU, backend="torch"), 1.0))
    unmeasured = [skipped(name, status=status) for name, status in ends.items()]
    deselected = skipped("test_out", reason_code="deselected")
    kept(
        tmp_path,
        MEASURED,
        *unmeasured,
        deselected,
        torch,
        cpu,
        replace(gpu, cpu=MEASURED.cpu, gpu=MEASURED.gpu),
    )
    (ours, tests), (other, others) = read(tmp_path).points.items()
    known = {"test_a": "passed", **ends, "test_a[gpu]": "passed"}
    assert known == {name: point.status for name, (point,) in tests.items()}
    assert ["test_t"] == [*others]
    assert ("GPU backend cupy" in ours, "GPU backend torch" in other) == (True, True)


def test_the_fingerprint_is_of_all_that_a_speedup_depends_on_but_the_test(tmp_path):
    found = {}

    def conditions(environment=HERE, gpu=GPU, demand=MEASURED.demand) -> str:
        """Return the fingerprint of a run of one test, in a folder of its own."""
        one = replace(MEASURED, demand=demand, gpu=gpu and measurement(gpu, 0.01, 0.02))
        folder = tmp_path / f"{len(found)}"
        add(folder, replace(RUN, environment=environment, records=(one,)))
        (found[folder],) = read(folder).points
        return found[folder]

    expected = (
        "CPU EPYC, processors 16, python 3.11, CPU backend numpy, CPU library numpy 2.4, GPU H200, "
        "GPU backend cupy, GPU library cupy 13.3, GPU driver for CUDA 13, GPU runtime CUDA 13"
    )
    assert expected == conditions() == conditions(demand=Demand(min=3, max_time=2))
    assert expected == conditions(gpu=replace(GPU, driver="for CUDA 13.2", runtime="CUDA 13.1"))
    others = [
        conditions(replace(HERE, variables={"OMP_NUM_THREADS": "1"})),
        *(
            conditions(gpu=replace(GPU, **each))
            for each in (
                {"emulated": True},
                {"reduced_precision": "TF32"},
                {"reduced_convolutions": "TF32"},
                {"memory": 80 << 30},
            )
        ),
        *(conditions(demand=each) for each in (Demand(transfer="always"), Demand(latency=True))),
        conditions(demand=Demand(transfer="once", calls=10)),
    ]
    assert 9 == len({expected, *others})
    assert "GPU none" in conditions(replace(HERE, gpu=None), None)


# Writing.


@pytest.mark.parametrize(
    ("id", "expected"),
    [(COMMIT.id, "0123456789ab"), ("../../etc/x", "etcx"), ("\0/", "unknown"), ("é" * 40, "unknown")],
)
def test_the_name_of_a_file_has_time_and_commit_and_stays_in_the_folder(tmp_path, id, expected):
    folder = tmp_path / "a" / "b"
    path = add(folder, replace(RUN, commit=Commit(id=id)))
    time, commit, rest = path.name.split("-")
    assert (folder, "20260102T010405Z", expected, 17) == (path.parent, time, commit, len(rest))
    assert "unknown" == add(folder, replace(RUN, commit=None)).name.split("-")[1]


def test_runs_and_names_are_in_the_order_of_time(tmp_path):
    times = ["2026-01-02T00:00:00+02:00", "2026-01-01T23:00:00+00:00", "2026-01-01T22:30:00+00:00"]
    paths = [add(tmp_path, replace(RUN, started=started)) for started in times]
    assert [paths[0], paths[2], paths[1]] == sorted(paths)
    paths[1].rename(tmp_path / "0")  # whatever its name is
    found = read(tmp_path)
    began = [point.started for point in results(found)["test_a"]]
    assert [f"{time:%H:%M}" for time in began] == ["22:00", "22:30", "23:00"]
    assert (*began,) == found.started


def test_runs_that_are_written_at_once_lose_nothing(tmp_path):
    with ThreadPoolExecutor(4) as writers:
        written = {*writers.map(add, [tmp_path] * 60, [RUN] * 60)}
    assert (60, 60, {}) == (len(written), len(read(tmp_path).started), read(tmp_path).rejected)


@pytest.mark.parametrize("started", ["yesterday", "0001-01-01T00:00:00+23:00"])
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


def test_any_report_is_a_run_of_a_history_and_of_what_is_none_the_reason_is_short(tmp_path):
    report = document.text(RUN)
    (tmp_path / "report").write_text(report, encoding="utf-8-sig")  # with samples, and a mark
    (tmp_path / "other").write_text(json.dumps({"schema_version": "1.0", "x" * 10_000: 1}))
    found = read(tmp_path)
    assert 1 == len(results(found)["test_a"]) == len(found.started)
    assert ("breaks its schema" in found.rejected["other"], len(found.rejected["other"])) == (True, 200)
