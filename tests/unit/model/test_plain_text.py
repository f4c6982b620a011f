"""Plain text: nothing that others have written steers a terminal, is endless, or cannot be had."""

import json

import pytest
from cases import for_each
from factories import CPU, record, run_of
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_gpuperf.model.comparison import Comparison, GateFailure
from pytest_gpuperf.model.errors import Unavailable
from pytest_gpuperf.model.measurement import ResultCheck
from pytest_gpuperf.model.record import Note, Record, Verdict
from pytest_gpuperf.report.json import codec

HOSTILE = "\x1b]0;owned\x07\r\n\u202e\ud800" + "é" * 1_000_000
ANY = st.text(st.characters(), max_size=40).flatmap(lambda text: st.sampled_from([text, text * 100]))
COMPARED = Comparison(metric="speedup", tolerance=0.1, outcome="inconclusive", reason=HOSTILE)
VALUES = {
    "verdict": (Verdict(status="error", reason=HOSTILE), "reason"),
    "note": (Note(code="slowed_by_settings", text=HOSTILE), "text"),
    "record": (record(status="error", reason=HOSTILE), "reason"),
    "restart": (record(restart_reason=HOSTILE), "restart_reason"),
    "device": (replace(CPU, name=HOSTILE), "name"),
    "library": (replace(CPU, library=HOSTILE), "library"),
    "environment": (replace(run_of().environment, gpu_reason=HOSTILE), "gpu_reason"),
    "check": (ResultCheck(agreed=None, error=None, tolerance=None, reason=HOSTILE), "reason"),
    "comparison": (COMPARED, "reason"),
    "failure of a gate": (GateFailure(code="nothing_measured", text=HOSTILE), "text"),
}


def is_plain(text: str) -> bool:
    return text.isprintable() and len(text.encode()) <= 2_000


@given(ANY)
@example("é" * 999 + "x")
def test_a_reason_is_plain_and_stays_as_it_is(text):
    found = Verdict(status="error", reason=text).reason
    assert is_plain(found)
    assert Verdict(status="error", reason=found).reason == found
    assert bool(text) == bool(found)
    assert found == text or not is_plain(text)


def test_what_is_cut_says_so():
    assert Verdict(status="error", reason="é" * 1001).reason == "é" * 998 + "…"


@pytest.mark.parametrize(("value", "name"), VALUES.values(), ids=VALUES)
def test_a_value_of_the_model_holds_plain_text_only(value, name):
    assert is_plain(getattr(value, name))
    assert getattr(value, name).startswith(r"\x1b]0;owned\x07\r\n\u202e\ud800é")


def test_what_is_read_from_a_file_or_put_in_later_is_plain():
    content = codec.dump(record(status="error", reason="x")) | {"reason": "\x1b[31m" + "x" * 9999}
    assert is_plain(codec.load(json.dumps(content).encode(), Record).reason)
    assert replace(COMPARED, differences=("\x1b[31m", "CPU")).differences == (r"\x1b[31m", "CPU")


def test_why_a_gpu_is_unavailable_is_one_sentence():
    assert str(Unavailable("it is not installed;\n  \x1b[31minstall it")) == (
        r"it is not installed; \x1b[31minstall it"
    )


@for_each("said", ["", " \n", None])
def test_a_gpu_is_never_unavailable_without_a_reason(said):
    assert "its backend gives no reason" == str(Unavailable(said))


RAISING = """
import json
import functools

class Nameless(Exception):
    def __str__(self):
        raise SystemExit(3)

    __repr__ = __str__

class Plain:
    pass

ERRORS = [
    ValueError("\\n\\nfirst\\nsecond"),
    ValueError("====\\n=== CuPy is broken: ===\\nwhy"),
    ValueError("-1 is not a size."),
    ValueError("\\x1b[31mred"),
    ValueError(),
    Nameless(),
]
NAMED = ["fft", Plain, json, functools.partial(Plain, 3), Nameless(), object()]

@pytest.mark.parametrize("number", range(len(ERRORS)))
@pytest.mark.speedup
def test_raises(device, number):
    raise ERRORS[number]

@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("named", NAMED)
@pytest.mark.offload_threshold("n")
@pytest.mark.speedup(max_time=0.1)
def test_named(device, named, n):
    return lambda: device.launch()
"""


def test_what_others_have_written_is_a_line_in_a_report_and_the_same_in_every_run(suite):
    found = suite(RAISING)
    raised = [record["reason"] for name, record in found.records.items() if "raises" in name]
    said = ["ValueError: first", "ValueError: CuPy is broken", "ValueError: -1 is not a size"]
    said += [
        r"ValueError: \x1b[31mred",
        "ValueError",
        "Nameless: <Nameless, which cannot be shown: SystemExit>",
    ]
    assert [f"{each}, raised on the CPU (simulated CPU)" for each in said] == raised
    names = ("fft", "Plain", "json", "functools.partial(<class 'test_it.Plain'>, 3)", "Nameless", "object")
    assert [f"test_it.py::test_named[named={name}]" for name in names] == [
        each["name"] for each in found.written["thresholds"]
    ]
