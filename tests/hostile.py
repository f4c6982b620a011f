"""A run in which strangers chose all that strangers can choose: names, reasons, commits, the environment."""

from factories import GPU, measurement, record, run_of, scaling_curve, skipped
from msgspec.structs import replace

from pytest_gpuperf.model.comparison import Commit, GateFailure, GateResult
from pytest_gpuperf.model.offload import Diagnosis
from pytest_gpuperf.model.record import Note, Run

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


def hostile_run() -> Run:
    """Return a run with each of the texts wherever a report may have one."""
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
    return replace(run, environment=environment)
