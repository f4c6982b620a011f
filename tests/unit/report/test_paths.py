"""Places: what may be written over, and which paths are folders."""

import json
from itertools import product

import pytest
from cases import for_each
from factories import EMULATED, record, run_of, scaled, skipped, speedup
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_gpuperf.report import exports, paths
from pytest_gpuperf.report.json import document

HARD = st.sampled_from(tuple(",;\"'[]{}:`\\ \n\r\t\x1b\ud800\u2028"))
HOSTILE = st.lists(HARD | st.characters(), max_size=60).map("".join)
FORMATS = {name: each for name, each in exports.formats().items() if name != "html"}
WRITTEN = {"report": document.text, **{name: each.write for name, each in FORMATS.items()}}
BEGINS = {"report": paths.REPORT, **{name: each.begins_as for name, each in FORMATS.items()}}
OTHERS = {
    "package.json": '{"name": "mine", "private": true}',
    "settings in objects": '{"editor": {"speedup": 2}, "gpu-ns": {"value": 3}}',
    "another tool's metrics": '{"test_it": {"latency": {"value": 3.0}}}',
    "another tool's report": '{"schema_version": "1.4.0", "id": "GHSA-1"}',
    "a history entry": '{"history_version": "1.0", "started": "2026-01-01T00:00:00+00:00"}',
    "a table of ours from another version": "test,status,reason,cpu_device,gpu_device\r\n",
    "a run of pytest-benchmark": '{"machine_info": {"node": "a", "processor": "", "machine": "x86_64", '
    '"python_compiler": "GCC 13.3.0"}}',
    "another tool's chart": '[{"name": "mine", "unit": "ms", "value": 3, "range": "1"}]',
    "another table": "test,status,reason\r\ntest_it,passed,\r\n",
    "notes": "# Speedups\n\nof last week",
    "white space and then something": " " * 100_000 + "precious",
}


@pytest.fixture(scope="module")
def runs():
    """Make the runs that a format's output may be of, with tests of this name."""

    def call(nodeid: str) -> dict:
        whole = record(nodeid)
        emulated = replace(whole, gpu=replace(whole.gpu, device=EMULATED))
        open_ended = record(nodeid, speedup=speedup(10.0, None, None))
        return {
            "empty": run_of(),
            "skipped": run_of(skipped(nodeid)),
            "whole": run_of(whole),
            "scaling": run_of(scaled(4, 0.5)),
            "several": run_of(skipped(nodeid), record("test_a.py::test_2"), record("test_a.py::test_3")),
            "emulated": run_of(emulated),
            "emulated only": run_of(replace(emulated, cpu=None, speedup=None)),
            "open": run_of(open_ended),
            "CPU only": run_of(record(nodeid, gpu=None, speedup=None)),
            "GPU only": run_of(record(nodeid, cpu=None, speedup=None)),
            "ended early": run_of(whole, complete=False, gpu=None),
        }

    return call


@pytest.fixture(scope="module")
def objected(tmp_path_factory):
    """Say why a file of a kind may not be written over a text, if it may not."""
    path = tmp_path_factory.mktemp("places") / "there"

    def call(kind: str, text: str) -> str | None:
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        return paths.why_not_writable(path, BEGINS[kind], kind)

    return call


# What runs hold beside names is in the tests below.
@given(nodeid=HOSTILE)
@example(nodeid="")
@example(nodeid='tests/test_a.py::test["quoted \\\\", {"a": [1, 2]}]')
@example(nodeid="\N{PILE OF POO}" * 5_000)
def test_what_we_wrote_is_written_over(runs, objected, nodeid):
    made = runs(nodeid)
    for kind, name in product(BEGINS, ("whole", "several", "skipped")):
        assert objected(kind, WRITTEN[kind](made[name])) is None, (kind, name)


@for_each("kind", [kind for kind in BEGINS if kind not in ("markdown", "csv", "svg")])
def test_json_of_ours_is_written_over_however_it_is_laid_out(runs, objected, kind):
    written = [text for run in runs("test_a.py::test_1").values() if (text := WRITTEN[kind](run))]
    assert [objected(kind, json.dumps(json.loads(text), indent=4)) for text in written] == [None] * len(
        written
    )


@for_each("kind", BEGINS)
def test_what_we_wrote_in_another_form_is_not(runs, objected, kind):
    for other, (name, run) in product(WRITTEN, runs("test_a.py::test_1").items()):
        if text := WRITTEN[other](run):  # else no file is written
            assert (kind == other) == (objected(kind, text) is None), (other, name)


@for_each("text", OTHERS.values())
def test_what_others_wrote_is_not(objected, text):
    for kind in BEGINS:
        assert f"exists and was not written by pytest-gpuperf as {kind}; choose another file" in (
            objected(kind, text) or ""
        )


@for_each("text", ["", " \n"])
def test_an_empty_file_is_anybodys(objected, text):
    assert [None] * len(BEGINS) == [objected(kind, text) for kind in BEGINS]
