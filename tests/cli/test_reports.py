"""gpuperf show, validate and recover: what each says of a report and of a journal."""

import json
from pathlib import Path
from typing import get_args

import pytest
from command import NO_GPU, inputs, journaled, read, record, skipped, written
from factories import GPU, HERE, gate_result, measured
from msgspec.structs import replace

from pytest_gpuperf.model.comparison import AbsenceCause, Absent

NO_TESTS = "no test with a speedup marker ran"
SLOW = record("test_a.py::test_2", status="failed", reason="too slow")
GONE = Absent(name="test_b", metric="speedup", cause="gone", reason=None)
NOT_RUN = "regression check: 1 of 2 baseline tests was not compared: 1 missing (test_b)"
OTHERS = {cause: replace(GONE, name=f"test_{cause}", cause=cause) for cause in get_args(AbsenceCause)}
GROUPS = tuple(replace(GONE, name=name, metric=None) for name in ("size", "devices"))
ALL_CAUSES = (
    "regression check: 6 of 1,000 baseline tests and 2 groups of its tests were not compared: 1 not measured "
    "(test_not_measured), 3 missing (devices, size, test_gone), 1 skipped (test_skipped), "
    "1 expected to fail (test_excused), 1 left out by the command line (-k, -m), 1 not reached (test_ended)"
)


@pytest.mark.parametrize(
    ("expected", "records", "changes"),
    [
        ({"CPU EPYC | GPU H200 through cupy", "test_2: too slow"}, [record(), SLOW], {}),
        ({"CPU unknown | GPU H200 through cupy"}, [record()], {"environment": replace(HERE, cpu={})}),
        ({NO_TESTS}, [skipped(reason_code="deselected")], {}),
        ({"", "the run ended early: this is not all of it"}, [record()], {"complete": False}),
        ({"", "FAILED: nothing was compared"}, [record()], {"gate": gate_result("nothing was compared")}),
        ({"", NOT_RUN}, [record()], {"gate": gate_result(baseline_tests=2, absent=(GONE,))}),
        (
            *({ALL_CAUSES}, [record()]),
            {
                "gate": gate_result(baseline_tests=1000, absent=(*OTHERS.values(), *GROUPS)),
                "narrowed_by": ("-k", "-m"),
            },
        ),
    ],
)
def test_show_prints_the_table_the_reasons_and_what_failed(call, expected, records, changes):
    code, lines, err = call("show", written("r.json", *records, **changes))
    assert (0, "") == (code, err)
    assert expected <= {*lines}


def test_a_page_has_what_changed_since_a_baseline(call):
    written("base.json", record(value=20))
    written("r.json", record(value=10))
    assert (0, ["alone.html: 1 record as html"], "") == call("show", "r.json", "--html", "alone.html")
    call("show", "r.json", "--baseline", "base.json", "--html", "page.html")
    assert 1 == call("compare", "base.json", "r.json", "--html", "compared.html")[0]
    bodies = [
        Path(f"{name}.html").read_text().partition("<body>")[2].partition("<script>")[0]
        for name in ("alone", "page", "compared")
    ]
    assert [False, True, True] == ["regressed" in body for body in bodies]


def test_a_history_is_for_the_page_and_a_folder(refused):
    written("r.json", record())
    said = refused("show", "r.json", "--history=speedup", "--html", "page.html")
    assert said == "speedup is no folder; runs with --gpuperf-history=speedup make one"
    Path("speedup").mkdir()
    said = refused("show", "r.json", "--history=speedup")
    assert said == "--history is for the page: name it with --html PATH"


def test_validate_counts_the_records(call):
    written("r.json", record(), SLOW)
    assert (0, ["r.json: valid, 2 records"], "") == call("validate", "r.json")


def test_validate_names_the_path_of_what_the_published_schema_refuses(refused):
    content = read(written("r.json", record()))
    content["environment"]["packages"]["numpy"] = 2
    Path("r.json").write_text(json.dumps(content), encoding="utf-8")
    said = "r.json: it breaks its schema at $.environment.packages.numpy: 2 is not of type 'string'"
    assert said == refused("validate", "r.json")


# gpuperf recover


@pytest.mark.parametrize(
    ("said", "arguments"),
    [
        ("r.json exists; name a new file, so that nothing is lost", ["r.journal", "r.json"]),
        ("nowhere: No such file or directory", ["nowhere", "out"]),
        ("r.json is a report, not a journal, and needs no recovery", ["r.json", "out"]),
        ("line.json is a report, not a journal, and needs no recovery", ["line.json", "out"]),
        ("empty has no whole line: the run ended before it measured anything", ["empty", "out"]),
    ],
)
def test_what_cannot_be_recovered_is_named(refused, said, arguments):
    inputs()
    Path("line.json").write_text(json.dumps(read("r.json")) + "\n", encoding="utf-8")
    Path("empty").touch()
    assert said == refused("recover", *arguments)


EMULATED, ANOTHER = replace(GPU, emulated=True), replace(GPU, name="another")


@pytest.mark.parametrize(
    ("expected", "environment", "gpu"),
    [
        (GPU, HERE, ANOTHER),  # the heading's own
        (None, NO_GPU, None),
        (EMULATED, replace(HERE, gpu=None), EMULATED),  # that only its records tell
    ],
)
def test_a_recovered_report_has_the_gpu_of_its_heading_or_of_its_records(call, expected, environment, gpu):
    on_gpu = {"gpu": gpu and measured(gpu, 1e-3), "speedup": None}
    journaled(record(gpu=None, speedup=None), record("test_a.py::test_2", **on_gpu), environment=environment)
    said = ["out: 2 records recovered; r.journal can be removed"]
    assert (0, said, "") == call("recover", "r.journal", "out")
    found = read("out")
    assert found["complete"] is False
    assert (expected and expected.name) == (found["environment"]["gpu"] or {}).get("name")
    assert (None if expected else NO_GPU.gpu_reason) == found["environment"]["gpu_reason"]
