"""History: a run is kept as one small file of its own, and whatever else is in the folder is named."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from math import nan
from pathlib import Path

import factories
import pytest
from cases import for_each
from factories import measurement, record, run_of, skipped, speedup
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from pytest_gpuperf.gate.fingerprint import key
from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.demand import Demand, Pairing
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.record import STATUSES
from pytest_gpuperf.report import files, history
from pytest_gpuperf.report.history import Entry, Group, History, Interval, entry, read, write
from pytest_gpuperf.report.history import Tested as OneTest  # pytest collects what is called Test...
from pytest_gpuperf.report.json import codec, document

CPU = replace(factories.CPU, library="numpy 2.4.1")
GPU = replace(
    factories.GPU,
    library="cupy 13.3.0, CUDA 13.0, driver for 13.0",
    driver="for CUDA 13.0",
    runtime="CUDA 13.0",
)
HERE = replace(factories.HERE, cpu={"name": "EPYC", "logical": 64, "usable": 16, "quota": None}, gpu=GPU)
COMMIT = Commit(id="0123456789abcdef0123", branch="main", time="2026-01-01T00:00:00+01:00", changed=False)
TESTS = (
    OneTest(
        nodeid="test_é[\ud800\n]",
        status="passed",
        speedup=Interval(value=9.5, low=9.0, high=None),
        cpu=0.01,
        gpu=0.001,
    ),
    OneTest(nodeid="test_b", status="skipped"),
)
KEPT = factories.entry(
    2, Group(fingerprint="here", tests=TESTS), started="2026-01-02T03:04:05+00:00", commit=COMMIT
)


def every_test(kept: Entry) -> list[OneTest]:
    return [test for group in kept.measured for test in group.tests]


def changed_test(**changes) -> dict:
    """Return the results of an entry of one test that is changed."""
    return {"measured": (Group(fingerprint="here", tests=(replace(TESTS[0], **changes),)),)}


def reasons(folder: Path) -> dict[str, str]:
    return read(folder).rejected


def changed(folder: Path, edit) -> str:
    """Return why an entry is rejected that somebody has edited."""
    path = write(folder, KEPT)
    content = json.loads(path.read_text(encoding="utf-8"))
    edit(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    assert read(folder).entries == ()
    return reasons(folder)[path.name]


# What is kept of a run.


def test_an_entry_has_the_medians_and_the_interval_in_six_digits():
    measured = record(
        "test_a",
        cpu=measurement(CPU, 0.1, 0.2, 1 / 3),
        gpu=measurement(GPU, 0.01, 0.02, 0.03),
        speedup=speedup(9.87654321, 9.1, None),
    )
    interval = Interval(value=9.87654, low=9.1, high=None)
    found = OneTest(nodeid="test_a", status="passed", speedup=interval, cpu=0.2, gpu=0.02)
    (group,) = entry(run_of(measured, environment=HERE)).measured
    assert group == Group(fingerprint=key(HERE, CPU, GPU), tests=(found,))


def test_an_entry_has_the_start_and_the_commit_of_its_run():
    kept = entry(run_of(record(), started="2026-01-02T03:04:05+00:00", commit=COMMIT))
    assert ("2026-01-02T03:04:05+00:00", COMMIT) == (kept.started, kept.commit)


def test_a_run_without_a_speedup_is_kept_with_how_its_tests_ended():
    several = [skipped(f"test_{status}", status=status) for status in STATUSES]
    assert list(STATUSES) == [test.status for test in every_test(entry(run_of(*several)))]


def test_a_deselected_test_was_not_in_the_run():
    assert () == entry(run_of(skipped("test_a", reason_code="deselected"))).measured


def test_a_skip_of_the_suite_s_own_stays_whatever_its_reason_is():
    kept = entry(run_of(skipped("test_a", "deselected on the command line or by a plugin")))
    assert 1 == len(every_test(kept))


def test_a_cpu_variant_stands_with_its_gpu_variant():
    cpu = record("test_a[cpu]", gpu=None, speedup=None, pairing=Pairing(kind="cpu", library="numpy"))
    gpu = record("test_a[gpu]", pairing=Pairing(kind="gpu", library="cupy", partner="test_a[cpu]"))
    assert ["test_a[gpu]"] == [test.nodeid for test in every_test(entry(run_of(cpu, gpu)))]


def test_a_test_that_failed_early_stands_with_the_runs_in_which_it_did_not():
    kept = entry(run_of(record("test_a"), skipped("test_b", status="error")))
    assert 1 == len(kept.measured)


# The fingerprint.


def test_the_fingerprint_is_a_short_text():
    expected = (
        "CPU EPYC, processors 16, python 3.11, CPU backend numpy, CPU library numpy 2.4, GPU H200, "
        "GPU backend cupy, GPU library cupy 13.3, GPU driver for CUDA 13, GPU runtime CUDA 13"
    )
    assert expected == key(HERE, CPU, GPU)


def test_the_fingerprint_of_devices_that_say_little():
    nothing = replace(HERE, cpu={}, gpu=None)
    assert "python 3.11, GPU none" == key(nothing, None, None)


@for_each(
    "change",
    [
        {"name": "H100"},
        {"backend": "torch"},
        {"emulated": True},
        {"driver": "for CUDA 12.9"},
        {"runtime": "CUDA 12.0"},
        {"library": "cupy 13.4.0"},
        {"library": "cupy 14.3.0"},
        {"reduced_precision": "TF32"},
    ],
)
def test_another_device_has_another_fingerprint(change):
    assert key(HERE, CPU, GPU) != key(HERE, CPU, replace(GPU, **change))


@for_each(
    "change",
    [
        {"driver": "for CUDA 13.2"},
        {"runtime": "CUDA 13.1"},
        {"library": "cupy 13.3.1, CUDA 13.1, driver for 13.2"},
        {"library": "cupy 13.3.0rc1"},
        {"memory": 80},
    ],
)
def test_a_patch_of_a_library_or_driver_has_the_same_fingerprint(change):
    assert key(HERE, CPU, GPU) == key(HERE, CPU, replace(GPU, **change))


def test_a_patch_of_cuda_as_jax_counts_it_has_the_same_fingerprint():
    one, other = (replace(GPU, runtime=f"cuda {version}") for version in (12080, 12090))
    assert key(HERE, CPU, one) == key(HERE, CPU, other)


@for_each("change", [{"name": "Xeon"}, {"usable": 8}, {"usable": None}, {"quota": 1.5}])
def test_another_processor_has_another_fingerprint(change):
    other = replace(HERE, cpu={**HERE.cpu, **change})
    assert key(HERE, CPU, GPU) != key(other, CPU, GPU)


@for_each("demand", [Demand(transfer="always"), Demand(transfer="once", calls=10), Demand(latency=True)])
def test_speedups_that_include_something_else_have_another_fingerprint(demand):
    assert key(HERE, CPU, GPU) != key(HERE, CPU, GPU, demand)


def test_another_limit_has_the_same_fingerprint():
    assert key(HERE, CPU, GPU) == key(HERE, CPU, GPU, Demand(min=3, max_time=2))


@for_each("change", [{"python": "3.12.1"}, {"variables": {"OMP_NUM_THREADS": "1"}}])
def test_another_interpreter_or_number_of_threads_has_another_fingerprint(change):
    assert key(HERE, CPU, GPU) != key(replace(HERE, **change), CPU, GPU)


def test_what_else_is_in_a_run_does_not_change_a_test_s_fingerprint():
    torch = replace(GPU, backend="torch", library="torch 2.6.0+cu124")
    alone = entry(run_of(record("test_a"))).measured
    together = entry(run_of(record("test_t", gpu=measurement(torch, 1.0)), record("test_a"))).measured
    assert alone[0].fingerprint == together[1].fingerprint
    assert "torch 2.6," in together[0].fingerprint


# Writing.


def test_an_entry_that_was_written_and_read_is_the_same_entry(tmp_path):
    write(tmp_path, KEPT)
    assert (KEPT,) == read(tmp_path).entries


def test_the_folder_is_made_and_the_name_tells_time_and_commit(tmp_path):
    path = write(tmp_path / "a" / "b", replace(KEPT, started="2026-01-02T03:04:05+02:00"))
    time, commit, rest = path.name.split("-")
    assert ("20260102T010405Z", "0123456789ab", 12 + len(".json")) == (time, commit, len(rest))
    assert [path] == list((tmp_path / "a" / "b").iterdir())


@for_each(
    ("id", "expected"), [("../../etc/x", "etcx"), ("\0/", "unknown"), ("é" * 40, "unknown"), ("a", "a")]
)
def test_a_strange_commit_stays_in_the_folder(tmp_path, id, expected):
    path = write(tmp_path, replace(KEPT, commit=Commit(id=id)))
    assert (tmp_path, expected) == (path.parent, path.name.split("-")[1])


def test_a_run_that_knows_no_commit_is_kept(tmp_path):
    assert "unknown" == write(tmp_path, replace(KEPT, commit=None)).name.split("-")[1]
    assert (replace(KEPT, commit=None),) == read(tmp_path).entries


def test_names_sort_by_time(tmp_path):
    times = ["2026-01-02T00:00:00+02:00", "2026-01-01T23:00:00+00:00", "2026-01-01T22:30:00"]
    paths = [write(tmp_path, replace(KEPT, started=started)) for started in times]
    in_order = [times[0], times[2], times[1]]
    assert in_order == [found.started for found in read(tmp_path).entries]
    assert [paths[0], paths[2], paths[1]] == sorted(paths)


def test_runs_are_in_the_order_of_time_whatever_their_files_are_called(tmp_path):
    for name, day in (("a.json", 3), ("b.json", 1), ("c.json", 2)):
        write(tmp_path, replace(KEPT, started=f"2026-01-0{day}T00:00:00+00:00")).rename(tmp_path / name)
    assert ["01", "02", "03"] == [found.started[8:10] for found in read(tmp_path).entries]


def test_nothing_is_overwritten(tmp_path, monkeypatch):
    numbers = iter(["one", "one", "two"])
    monkeypatch.setattr(history, "token_hex", lambda _: next(numbers))
    assert 2 == len({write(tmp_path, KEPT), write(tmp_path, KEPT)})
    assert (KEPT, KEPT) == read(tmp_path).entries


def test_runs_that_are_written_at_once_lose_nothing(tmp_path):
    with ThreadPoolExecutor(4) as writers:
        written = {*writers.map(write, [tmp_path] * 60, [KEPT] * 60)}
    assert (60, 60) == (len(written), len(list(tmp_path.iterdir())))
    assert ((KEPT,) * 60, {}) == (read(tmp_path).entries, read(tmp_path).rejected)


def test_a_reader_never_sees_half_a_file(tmp_path, monkeypatch):
    seen = []
    moved = Path.replace

    def move(path, target):
        seen.append(read(tmp_path))
        return moved(path, target)

    monkeypatch.setattr(Path, "replace", move)
    write(tmp_path, KEPT)
    assert [History()] == seen


def test_a_file_is_small(tmp_path):
    tests = [record(f"tests/test_something.py::test_of_some_length[float32-{size}]") for size in range(100)]
    assert 250 * 100 > write(tmp_path, entry(run_of(*tests, commit=COMMIT))).stat().st_size


@for_each(
    "broken",
    [
        {"started": "yesterday"},
        {"started": "0001-01-01T00:00:00+23:00"},
        changed_test(status="fine"),
        changed_test(cpu=nan),
        changed_test(speedup=Interval(value=-1.0, low=None, high=None)),
        {"commit": Commit(id="")},
    ],
)
def test_what_breaks_the_schema_is_not_written(tmp_path, broken):
    with pytest.raises(GpuPerfError):
        write(tmp_path / "new", replace(KEPT, **broken))
    assert [] == list(tmp_path.iterdir())


def test_a_run_that_could_not_be_read_again_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(history, "_MOST_BYTES", 100)
    with pytest.raises(GpuPerfError, match="too large"):
        write(tmp_path, KEPT)


def test_a_full_disk_is_an_error_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path, KEPT)
    assert [] == list(tmp_path.iterdir())


# Reading.


def test_no_folder_is_an_error_that_says_how_to_make_one(tmp_path):
    with pytest.raises(GpuPerfError, match="--gpuperf-history"):
        read(tmp_path / "nowhere")


def test_an_empty_folder_is_an_empty_history(tmp_path):
    assert History() == read(tmp_path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "not JSON"),
        (b'{"history_version": "1.0", "star', "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "nested"),
        (b'{"a":' * 50_000, "nested"),
        (b"[" * 900 + b"]" * 900, "no entry of a history"),
        (b"1" * 5000, "not JSON"),
        (b"null", "no entry of a history"),
        (b'{"history_version": 1.0}', "no entry of a history"),
        (b'{"history_version": "1.0"}', "breaks its schema"),
        (b'{"history_version": "1.1"}', "newer than 1.0; update"),
        (b'{"history_version": "2.0"}', "newer than 1.0; update"),
        (b'{"schema_version": "1.0"}', "no entry of a history"),
    ],
)
def test_a_file_that_is_no_entry_is_named(tmp_path, text, reason):
    write(tmp_path, KEPT)
    (tmp_path / "other.json").write_bytes(text)
    assert (KEPT,) == read(tmp_path).entries
    assert ["other.json"] == list(reasons(tmp_path))
    assert reason in reasons(tmp_path)["other.json"]


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e999", "-1", "0", '"9"', "true", "[]", "1e13"]
)
def test_a_number_that_cannot_be_is_named(tmp_path, number):
    path = write(tmp_path, KEPT)
    path.write_text(
        path.read_text(encoding="utf-8").replace('"value":9.5', f'"value":{number}'), encoding="utf-8"
    )
    assert () == read(tmp_path).entries
    assert [path.name] == list(reasons(tmp_path))


def test_a_hand_edited_entry_is_named_with_the_place(tmp_path):
    def edit(content):
        content["measured"][0]["tests"][1]["note"] = "better now"

    assert "$.measured[0].tests[1]" in changed(tmp_path, edit)


def test_a_time_that_is_none_is_named(tmp_path):
    assert "yesterday" in changed(tmp_path, lambda content: content.update(started="yesterday"))


def test_a_test_that_is_there_twice_is_named(tmp_path):
    def edit(content):
        content["measured"].append({"fingerprint": "there", "tests": content["measured"][0]["tests"][1:]})

    assert "test_b more than once" in changed(tmp_path, edit)


def test_a_reason_is_short(tmp_path):
    assert 200 >= len(changed(tmp_path, lambda content: content.update(commit="x" * 10_000)))


def test_a_link_is_not_followed(tmp_path):
    folder, outside = tmp_path / "history", write(tmp_path / "outside", KEPT)
    folder.mkdir()
    (folder / "link.json").symlink_to(outside)
    (folder / "nowhere.json").symlink_to(tmp_path / "nothing")
    assert {
        "link.json": "it cannot be read: it is a link",
        "nowhere.json": "it cannot be read: it is a link",
    } == reasons(folder)
    assert () == read(folder).entries


def test_a_file_that_becomes_a_link_is_not_followed(tmp_path, monkeypatch):
    folder, outside = tmp_path / "history", write(tmp_path / "outside", KEPT)
    folder.mkdir()
    (folder / "link.json").symlink_to(outside)
    monkeypatch.setattr(Path, "is_symlink", lambda _: False)
    assert () == read(folder).entries
    assert ["link.json"] == list(reasons(folder))


def test_a_folder_and_a_pipe_are_no_files(tmp_path):
    (tmp_path / "folder.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    rejected = reasons(tmp_path)
    assert "it cannot be read: it is not a regular file" == rejected["folder.json"]
    assert "it cannot be read: it is not a regular file" == rejected["pipe.json"]


def test_a_huge_file_is_not_read(tmp_path):
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(1 << 40)
    assert "it has more than 8.00 MB" in reasons(tmp_path)["huge.json"]


def test_a_file_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    path = write(tmp_path, KEPT)

    def forbidden(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", forbidden)
    assert {path.name: "it cannot be read: Permission denied"} == reasons(tmp_path)


def test_a_file_that_vanishes_is_no_error(tmp_path, monkeypatch):
    paths = [write(tmp_path, KEPT), write(tmp_path, KEPT)]
    opened = os.open

    def vanish(path, *rest):
        paths[0].unlink(missing_ok=True)
        return opened(path, *rest)

    monkeypatch.setattr(os, "open", vanish)
    found = read(tmp_path)
    assert ({}, 1) == (found.rejected, len(found.entries))


def test_hidden_files_are_those_of_writers(tmp_path):
    (tmp_path / ".20260101.json.17.tmp").write_text("{", encoding="utf-8")
    (tmp_path / ".gitignore").write_text("*", encoding="utf-8")
    assert History() == read(tmp_path)


def test_a_file_of_another_name_is_an_entry_if_it_holds_one(tmp_path):
    write(tmp_path, KEPT).rename(tmp_path / "renamed")
    assert (KEPT,) == read(tmp_path).entries


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)
ANYTHING = JSON | st.just({}) | st.just([]) | st.sampled_from([10**400, -1, 1e308, "passed", "1.0"])


@given(text=st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_are_a_traceback(tmp_path, text):
    (tmp_path / "file.json").write_bytes(text)
    assert ["file.json"] == list(reasons(tmp_path))


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_edit_of_an_entry_is_a_traceback_and_it_is_an_entry_or_named(tmp_path, data):
    content = json.loads(codec.written(KEPT))
    place = content
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not place[key] or not isinstance(place[key], dict | list) or data.draw(st.booleans()):
            break
        place = place[key]
    if isinstance(place, dict) and data.draw(st.booleans()):
        del place[key]
    else:
        place[key] = data.draw(ANYTHING)
    (tmp_path / "file.json").write_text(json.dumps(content), encoding="utf-8")
    found = read(tmp_path)
    assert 1 == len(found.entries) + len(found.rejected)
    for kept in found.entries:
        write(tmp_path / ".again", kept)


@given(
    st.lists(
        st.builds(
            OneTest,
            nodeid=st.text(),
            status=st.sampled_from(STATUSES),
            speedup=st.none()
            | st.builds(
                Interval,
                value=st.floats(1e-12, 1e12),
                low=st.none() | st.floats(0, 1e12),
                high=st.none() | st.floats(0, 1e300),
            ),
            cpu=st.none() | st.floats(0, 1e300),
            gpu=st.none() | st.floats(0, 1e300),
        ),
        max_size=5,
        unique_by=lambda test: test.nodeid,
    ),
    st.integers(0, 5),
    st.datetimes(min_value=datetime(1900, 1, 1)),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_run_that_was_written_and_read_is_the_same_run(tmp_path, tests, first, time):
    groups = {"a": tuple(tests[:first]), "": tuple(tests[first:])}
    measured = tuple(Group(fingerprint=shared, tests=group) for shared, group in groups.items())
    kept = replace(KEPT, started=time.replace(tzinfo=UTC).isoformat(), measured=measured)
    path = write(tmp_path, kept)
    assert (kept,) == read(tmp_path).entries
    path.unlink()


# The published schema.


def published() -> dict:
    return document.published_schema("history")


def objects(part):
    if isinstance(part, dict):
        if "properties" in part:
            yield part
        for value in part.values():
            yield from objects(value)


def test_the_published_schema_is_a_schema_of_its_draft():
    assert "https://json-schema.org/draft/2020-12/schema" == published()["$schema"]
    Draft202012Validator.check_schema(published())


def test_every_object_of_the_schema_has_just_the_properties_that_it_names_and_says_what_they_are():
    found = list(objects(published()))
    assert 5 == len(found)
    for part in found:
        assert part["additionalProperties"] is False
        assert set(part["required"]) == set(part["properties"])
        assert all({"description", "const", "enum"} & set(each) for each in part["properties"].values())
