"""A run in which strangers chose all that strangers can choose: names, reasons, commits, the environment."""

from factories import GPU, gate_result, measurement, near_roof, record, run_of, scaling_curve, skipped
from msgspec.structs import replace

from pytest_gpuperf.model.comparison import Commit, GateFailure, GateNote
from pytest_gpuperf.model.offload import Diagnosis
from pytest_gpuperf.model.record import Environment, Note, Run

SENTINEL = "window.ran = true"
HOSTILE = {
    "script": f"<script>{SENTINEL}</script>",
    "attribute": f'"><img src=x onerror="{SENTINEL}">',
    "single quotes": f"' onmouseover='{SENTINEL}' x='",
    "link": f"javascript:{SENTINEL}",
    "anchor": f'<a href="javascript:{SENTINEL}">click</a>',
    "CDATA": f"]]><script>{SENTINEL}</script>",
    "style": f"</style><style>body {{ display: none }}</style><script>{SENTINEL}</script>",
    "end of the script": f"</script><script>{SENTINEL}</script>",
    "svg": f"</text></svg><svg onload='{SENTINEL}'><text>",
    "title": f"</title></path></svg><script>{SENTINEL}</script>",
    "template": "{{ 7 * 7 }}{% raw %}${7 * 7}",
    "comment": f"<!--<script>{SENTINEL}//-->",
    "frame": "<iframe srcdoc='<script>parent.ran = true</script>'></iframe><base href='//x'>",
    "entity": "&lt;b&gt;&#x3c;script&#x3e;",
    "right to left": "user\u202eyp.tset\u2066::\u200ftest",
    "controls": "a\x00b\x1b[31mc\x07\r\nd\u2028e",
    "lone surrogate": "a\ud800b\udfff",
    "long": "x" * 10_000,
    "long words": "long_name " * 1_000,
    "cells": "a|b|c a\\|b ends in a backslash\\",
    "backticks": "``` `` `ticks` `",
    "mentions": "@octocat and #1 and GH-2 https://example.org www.example.org me@example.org",
    "links": "[link](https://example.org) ![image](x) [^1] :smile: $x$",
    "emphasis": "~~gone~~ **bold** _it_ <!-- comment",
    "heading": "line\nbreak\r\n\n# heading",
    "end of the table": "</details></table><h1>",
    "spaces": " spaces ",
    "nothing": "",
    "combining": "e" + "\u0301" * 500,
}


def records_of(text):
    """Return records of which a stranger chose all that strangers can choose."""
    device = replace(GPU, name=text, library=text, driver=text)
    return [
        record(
            f"tests/test_x.py::test_it[{text}]",
            status="failed",
            reason=text or "-",
            gpu=measurement(device, 1e-3, 2e-3, dtypes=(text,), shapes=(text,)),
            notes=(Note(code="interference", text=text),),
            diagnosis=(Diagnosis(code="float64", sentence=text),),
        ),
        record(text),
        skipped(f"{text}::test_skipped", reason=text or "-"),
        *(near_roof(f"{text}::test_roof[{n}]", 1000 * n, gpu=measurement(device, 1e-3)) for n in (1, 2, 3)),
    ]


def hostile_run(*texts: str) -> Run:
    """Return a run with each of these texts, or of those above, wherever a report may have one."""
    texts = texts or tuple(HOSTILE.values())
    together, named = " ".join(texts), {text: text for text in texts}
    diagnoses = {text: Diagnosis(code="serial_part", sentence=text) for text in texts}
    failures = tuple(GateFailure(code="nothing_measured", text=text) for text in texts)
    notes = tuple(GateNote(code="baseline_stale", text=text) for text in texts)
    known = {**named, "name": together, "system": together}
    return run_of(
        *(each for text in texts for each in records_of(text)),
        environment=Environment(
            host=known,
            cpu=known,
            gpu=replace(GPU, name=together, backend=together, library=together),
            gpu_reason=together,
            python=together,
            packages=named,
            variables=named,
        ),
        commit=Commit(id=together, branch=together, url=HOSTILE["link"]),
        job=HOSTILE["attribute"],
        started=together,
        scalings=tuple(
            scaling_curve(name=text or "-", diagnosis=(each,)) for text, each in diagnoses.items()
        ),
        gate=gate_result(baseline=together, started=together, tolerances=(), failures=failures, notes=notes),
    )
