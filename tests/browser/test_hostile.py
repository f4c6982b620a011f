"""What strangers wrote into a report (names, reasons, commits, the environment) stays text on the page."""

import pytest
from cases import for_each
from factories import GPU, measurement, record, run_of, scaling_curve, skipped
from msgspec.structs import replace

from pytest_gpuperf.model.comparison import Commit, GateFailure, GateResult
from pytest_gpuperf.model.offload import Diagnosis
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.report.html import page

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
    "combining": "e" + "\u0301" * 500,
}


TOGETHER = " ".join(HOSTILE.values())


def records_of(text):
    """Return records of which a stranger chose all that strangers can choose."""
    device = replace(GPU, name=text, library=text, driver=text)
    return [
        record(
            f"tests/test_x.py::test_it[{text}]",
            status="failed",
            reason=text,
            gpu=measurement(device, 1e-3, 2e-3, dtypes=(text,), shapes=(text,)),
            notes=(Note(code="interference", text=text),),
            diagnosis=(Diagnosis(code="float64", sentence=text),),
        ),
        record(text),
        skipped(f"{text}::test_skipped", reason=text),
    ]


@pytest.fixture(scope="module")
def hostile():
    """Return the page of a run in which strangers chose everything."""
    texts = {text: text for text in HOSTILE.values()}
    diagnoses = {text: Diagnosis(code="serial_part", sentence=text) for text in texts}
    failures = [GateFailure(code="nothing_measured", text=text) for text in texts]
    run = run_of(
        *(each for text in texts for each in records_of(text)),
        gpu=replace(GPU, name=TOGETHER, library=TOGETHER),
        commit=Commit(id=TOGETHER, branch=TOGETHER, url=HOSTILE["link"]),
        job=HOSTILE["attribute"],
        started=TOGETHER,
        scalings=tuple(scaling_curve(name=text, diagnosis=(each,)) for text, each in diagnoses.items()),
        gate=GateResult(baseline=TOGETHER, started=TOGETHER, tolerances=(), failures=tuple(failures)),
    )
    named = {**texts, "name": TOGETHER, "system": TOGETHER}
    environment = replace(
        run.environment, host=named, cpu=named, python=TOGETHER, packages=texts, variables=texts
    )
    return page.text(replace(run, environment=environment))


def test_nothing_that_a_stranger_wrote_runs_or_loads(opened, hostile):
    shown = opened(hostile)
    shown.open_all()
    for each in shown.query_selector_all("summary, .test > tr:first-child > th, figure")[:60]:
        each.hover()
    assert not shown.evaluate("() => 'ran' in window")
    inserted = "img, a:not([href^='#t']), iframe, base, object, embed, link, form form, [onload]"
    assert 0 == shown.locator(inserted).count()
    assert 1 == shown.locator("script").count() == shown.locator("style").count()


@for_each("width", [360, 1280])
def test_nothing_that_a_stranger_wrote_breaks_the_layout(opened, hostile, width):
    shown = opened(hostile, width=width)
    assert [] == shown.misplaced()
    shown.open_all()
    assert [] == shown.misplaced()


def test_what_a_stranger_wrote_is_shown_as_it_is(opened, hostile):
    said = opened(hostile).text
    kinds = ("script", "attribute", "single quotes", "link", "CDATA", "template", "comment", "entity")
    assert [] == [kind for kind in kinds if HOSTILE[kind] not in said]
    assert r"user\u202eyp.tset\u2066" in said
