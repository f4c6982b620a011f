"""Plain text: nothing that others have written steers a terminal, is endless, or cannot be had."""

import json
from fractions import Fraction
from functools import partial

import pytest
from cases import for_each
from factories import CPU, record, run_of
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_gpuperf.model.comparison import Comparison, GateFailure
from pytest_gpuperf.model.errors import Unavailable
from pytest_gpuperf.model.measurement import ResultCheck
from pytest_gpuperf.model.plain_text import (
    LONGEST,
    first_line,
    message,
    one_line,
    quote,
    stable_text,
)
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


class Nameless(Exception):
    """Nothing can be had of it: neither what it says nor how it is shown."""

    def __str__(self):
        raise SystemExit(3)

    __repr__ = __str__


def is_plain(text: str) -> bool:
    return text.isprintable() and len(text.encode()) <= LONGEST


@given(ANY)
def test_one_line_is_plain_and_stays_as_it_is(text):
    shown = one_line(text)
    assert is_plain(shown)
    assert one_line(shown) is shown or one_line(shown) == shown
    assert bool(text) == bool(shown)
    assert shown == text or not is_plain(text)


def test_what_is_cut_says_so():
    assert one_line("é" * 999 + "x") == "é" * 999 + "x"
    assert one_line("é" * 1001) == "é" * 998 + "…"


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


@pytest.mark.parametrize(
    ("expected", "error"),
    [
        ("first", ValueError("\n\nfirst\nsecond")),
        ("CuPy is broken", ValueError("====\n=== CuPy is broken: ===\nwhy")),
        ("-1 is not a size", ValueError("-1 is not a size.")),
        (r"\x1b[31mred", ValueError("\x1b[31mred")),
        ("", ValueError()),
        ("<Nameless, which cannot be shown: SystemExit>", Nameless()),
    ],
    ids=["two lines", "a page", "a sign", "colour", "nothing", "without str"],
)
def test_the_message_of_an_exception_is_its_first_line_with_words(expected, error):
    assert expected == message(error)
    kind = type(error).__name__
    assert (f"{kind}: {expected}" if expected else kind) == first_line(error)


class Plain:
    """An object without a text of its own."""


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        ("fft", "fft"),
        ("Plain", Plain),
        ("json", json),
        ("functools.partial(<function for_each>, 3)", partial(for_each, 3)),
        ("Nameless", Nameless()),
        ("object", object()),
    ],
)
def test_the_text_of_an_object_is_the_same_in_every_run(expected, value):
    assert expected == stable_text(value)


def test_control_c_in_a_message_is_no_part_of_it():
    class Slow(Exception):
        def __str__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        message(Slow())


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        ("'a'", "a"),
        ("Fraction(1, 2)", Fraction(1, 2)),
        ("<Nameless, which cannot be shown: SystemExit>", Nameless()),
        ("<int, which cannot be shown: ValueError>", 10**5000),
        ("'" + "x" * 996 + "…", "x" * 10_000_000),
    ],
    ids=["a text", "a number", "without repr", "too many digits", "long"],
)
def test_an_object_is_quoted_whatever_it_is(expected, value):
    assert expected == quote(value)
