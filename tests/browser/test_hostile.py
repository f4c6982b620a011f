"""What strangers wrote into a report (names, reasons, commits, the environment) stays text on the page."""

from dataclasses import replace

import pytest
from cases import for_each
from factories import GPU, measurement, record, run_of, skipped
from pytest_gpuperf.report.html import page

from pytest_gpuperf.model.comparison import Commit, GateFailure, GateResult
from pytest_gpuperf.model.offload import Diagnosis
from pytest_gpuperf.model.record import Note

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


def hostile_run(text):
    """Return a run in which everything that a stranger may choose is this text."""
    device = replace(GPU, name=text, library=text, driver=text)
    records = [
        record(
            f"tests/test_x.py::test_it[{text}]",
            status="failed",
            reason=text,
            gpu=replace(measurement(device, 1e-3, 2e-3), dtypes=(text,), shapes=(text,)),
            notes=(Note(code="interference", text=text),),
            diagnosis=(Diagnosis(code="float64", sentence=text, numbers={text: text}),),
        ),
        record(text),
        skipped(f"{text}::test_skipped", reason=text),
    ]
    run = run_of(
        *records,
        gpu=device,
        commit=Commit(id=text, branch=text),
        started=text,
        gate=GateResult(
            baseline=text,
            started=text,
            tolerances=(),
            failures=(GateFailure(code="nothing_measured", text=text),),
        ),
    )
    named = {text: text, "name": text, "system": text}
    environment = replace(
        run.environment, host=named, cpu=named, python=text, packages={text: text}, variables={text: text}
    )
    return replace(run, environment=environment)


@for_each("kind", HOSTILE)
def test_nothing_that_a_stranger_wrote_runs_or_loads(opened, kind):
    shown = opened(page.text(hostile_run(HOSTILE[kind])))
    shown.evaluate("() => document.querySelectorAll('details').forEach(each => each.open = true)")
    for each in shown.query_selector_all("summary, #table > tbody > tr:first-child > th"):
        each.hover()
    assert not shown.evaluate("() => 'ran' in window")
    foreign = "img, a, iframe, base, object, embed, link, script:not(body > script), style:not(head > style)"
    assert 0 == shown.locator(foreign).count()
    assert 1 == shown.locator("script").count() == shown.locator("style").count()


@for_each("kind", HOSTILE)
def test_nothing_that_a_stranger_wrote_breaks_the_layout(opened, kind):
    for width in (360, 1280):
        shown = opened(page.text(hostile_run(HOSTILE[kind])), width=width)
        shown.evaluate("() => document.querySelectorAll('details').forEach(each => each.open = true)")
        assert [] == shown.misplaced()


@pytest.mark.parametrize("kind", ["script", "attribute", "entity", "template", "link"])
def test_what_a_stranger_wrote_is_shown_as_it_is(opened, kind):
    shown = opened(page.text(hostile_run(HOSTILE[kind])))
    assert HOSTILE[kind] in shown.text
