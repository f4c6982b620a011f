"""Options: what their help texts say, and how they are read."""

import json
import os
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest
from cases import for_each
from factories import recorded, run_of

from pytest_gpuperf.report.json import document


def test_the_help_has_each_option_where_a_reader_looks_and_every_export_format(pytester):
    shown = str(pytester.runpytest_inprocess("--help").stdout).partition("pytest.ini")[0]
    groups = dict(
        part.split(":", 1) for part in shown.split("pytest-gpuperf, speedups of GPU over CPU: ")[1:]
    )
    members = {
        "device": "gpu default-device require-gpu",
        "measure": "all off max-time cost-ratio lock",
        "gate": "fail baseline baseline-missing fail-on strict allow",
        "output": "json html markdown export history",
    }
    named = {
        group: re.findall(r"^  --gpuperf-([\w-]+)", text, re.MULTILINE) for group, text in groups.items()
    }
    assert members == {group: " ".join(names) for group, names in named.items()}
    # pytest 8.4 breaks lines at hyphens.
    listed = "write the report as csv, bencher, github-action-benchmark, markdown, html, svg, or"
    assert "".join(listed.split()) in "".join(groups["output"].split())


@pytest.fixture
def reported(pytester):
    """Run pytest where it is called, on a suite without a test, and return its report."""

    def call(*options):
        pytester.runpytest_inprocess("--gpuperf-json=r.json", "--gpuperf-gpu=simulated", *options)
        return json.loads(Path("r.json").read_text(encoding="utf-8"))

    return call


def test_the_command_line_wins_over_the_ini_file(pytester, reported):
    assert reported()["cost_ratio"] is None
    pytester.makeini("[pytest]\ngpuperf_cost_ratio = 4")
    assert (4.0, 3.0) == (reported()["cost_ratio"], reported("--gpuperf-cost-ratio=3")["cost_ratio"])


@for_each("typed", ["-vrA", "-qrs", "-xvo x=1", "-vp no:doctest", "-svvknot x", "-qvv -k x"])
def test_short_options_are_read_as_pytest_reads_them(reported, typed):
    words = [typed] if "not x" in typed else typed.split(" ")
    assert (["-k"] if "k" in typed else []) == [
        each for each in reported(*words)["narrowed_by"] if each != "paths"
    ]


def test_words_in_a_file_are_typed_and_read_once_at_the_start(pytester, monkeypatch):
    typed, elsewhere = pytester.path / "typed.txt", pytester.mkdir("elsewhere")
    typed.write_text("@more.txt\n-k\nnot x\n", encoding="utf-8")
    (pytester.path / "more.txt").write_text("--gpuperf-cost-ratio=3\n--gpuperf-json=r.json", encoding="utf-8")
    pytester.makepyfile(f"import os\nos.chdir({str(elsewhere)!r})")
    pytester.runpytest_inprocess("@typed.txt", "--gpuperf-lock=none")
    monkeypatch.chdir(pytester.path)
    found = json.loads(Path("r.json").read_text(encoding="utf-8"))
    assert ["--gpuperf-cost-ratio=3", "--gpuperf-lock=none"] == found["arguments"]
    assert "-k" in found["narrowed_by"]
    typed.write_text("-q", encoding="utf-8")
    marked = "@__import__('pytest').mark.speedup\ndef test_it(device): __import__('pytest').skip('here')\n"
    pytester.makepyfile(f"import os\nos.chdir({str(elsewhere)!r})\n{marked}")
    pytester.runpytest_inprocess("@typed.txt").assert_outcomes(skipped=1)  # without an option of ours
    monkeypatch.chdir(pytester.path)
    typed.write_text("--gpuperf-strict", encoding="utf-8")
    said = str(pytester.runpytest_inprocess("@typed.txt").stderr)
    assert "ERROR: --gpuperf-strict requires --gpuperf-fail-on" in said


@for_each(
    ("allowed", "line", "flags"),
    [
        (False, "missing", []),
        (False, "no-gpu", []),
        (True, "no-gpu, missing", []),
        (True, "", ["--gpuperf-allow=missing,no-gpu"]),
        (True, "", ["--gpuperf-allow", "missing", "--gpuperf-allow", "no-gpu"]),
        (False, "missing", ["--gpuperf-allow=no-gpu"]),
    ],
)
def test_what_a_gate_allows_is_a_list(pytester, reported, allowed, line, flags):
    pytester.makeini(f"[pytest]\ngpuperf_allow = {line}\n" if line else "[pytest]\n")
    base = document.text(run_of(recorded("test_it.py::test_bare")))
    (pytester.path / "base.json").write_text(base, encoding="utf-8")
    gate = ("--gpuperf-gpu=none", "--gpuperf-baseline=base.json", "--gpuperf-fail-on=speedup:10%")
    assert allowed == (reported(*gate, *flags)["gate"]["failures"] == [])


def test_what_was_typed_of_our_options_is_kept_in_order_without_outputs(pytester, reported, monkeypatch):
    monkeypatch.setenv("PYTEST_ADDOPTS", "--gpuperf-fail=nothing")
    pytester.makeini("[pytest]\naddopts = --gpuperf-strict\ngpuperf_cost_ratio = 3\n")
    outputs = ("--gpuperf-markdown", "m.md", "--gpuperf-history=h")
    outputs += ("--gpuperf-export=csv:e.csv", "--gpuperf-baseline-missing=create")
    ours = (
        "--gpuperf-require-gpu",
        "--gpuperf-gpu=none",
        "--gpuperf-fail-on=gpu_time:5%",
        "--gpuperf-baseline=b.json",
    )
    ours += ("--gpuperf-fail-on=speedup:10%", "--gpuperf-lock=none")
    report = reported("-q", *outputs, "--gpuperf-max-time", "3", *ours, "-k", "not slow")
    assert ["--gpuperf-gpu=simulated", "--gpuperf-max-time=3", *ours] == report["arguments"]


@for_each(
    ("kept", "option"),
    [
        ("folder/b.json", "baseline=b.json"),
        ("b.json", "baseline=../b.json"),
        ("{above}/b.json", "baseline={above}/b.json"),
        ("none", "baseline=none"),
        ("later", "baseline=later"),
        ("{above}/b.json", "baseline=../../b.json"),
        ("~/b.json", "baseline=~/b.json"),  # below the home folder
        ("folder/l", "lock=l"),
        ("b.json", "default-device=b.json"),  # which is no path
    ],
)
def test_a_path_that_was_typed_in_a_folder_is_kept_as_from_the_root(
    pytester, reported, monkeypatch, kept, option
):
    folder, above = pytester.path / "folder", pytester.path.parent
    pytester.makeini("[pytest]\ngpuperf_baseline_missing = create\ngpuperf_baseline = none")
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    report = reported(f"--gpuperf-{option.format(above=above)}")
    flag = f"--gpuperf-{option.partition('=')[0]}"
    assert f"{flag}={kept.format(above=above)}" == report["arguments"][-1]


PATHS = ("json=", "html=", "markdown=", "export=csv:", "history=", "baseline=")


@pytest.mark.parametrize("place", ["the command line", "the ini file"])
def test_a_tilde_is_the_home_folder(run, pytester, monkeypatch, place):
    home = pytester.mkdir("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))  # which is what Windows has
    named = [f"{option}~/{number}" for number, option in enumerate(PATHS)]
    if place == "the ini file":
        pytester.makeini("\n".join(["[pytest]", *(f"gpuperf_{line}" for line in named)]))
        named = []
    source = "import pytest\n@pytest.mark.speedup\ndef test_it(device): return device.launch\n"
    run(source, "--gpuperf-baseline-missing=create", *(f"--gpuperf-{line}" for line in named))
    assert [str(number) for number in range(len(PATHS))] == sorted(path.name for path in home.iterdir())
    run(source, "--gpuperf-lock=~").stderr.fnmatch_lines([f"*--gpuperf-lock: {home} is a folder; *"])


THEIRS = {
    "notes.md": "# My notes\n",
    "package.json": '{"name": "mine", "private": true}',
    "others/package.json": '{"name": "mine", "private": true}',
    "page.html": "<!doctype html><title>mine</title>",
}
NAMES = [  # what follows `--gpuperf`, and how it is refused
    ("-maxtime=3", "-maxtime is no option of pytest-gpuperf; use --gpuperf-max-time"),
    ("_json", "_json is no option of pytest-gpuperf; use --gpuperf-json"),
    ("-gup=none", "-gup is no option of pytest-gpuperf; use --gpuperf-gpu"),
    ("-rounds", "-rounds is no option of pytest-gpuperf; there are --gpuperf-all, --gpuperf-allow, *"),
    ("-save=report.json", "-save is no option of *; use --gpuperf-json"),
]
VALUES = [  # what follows `--gpuperf-`, and how it is refused
    ("gpu=cudnn", "gpu: no backend is called 'cudnn'; available: auto, none, cupy, sycl*"),
    (
        "gpu=networkx:parallel",
        "gpu: networkx is an accelerator and no backend; pass accelerator:networkx:parallel*",
    ),
    (
        "gpu=accelerator:foo",
        "gpu: there is no accelerator 'foo'; the accelerators are accelerator:cudf.pandas*",
    ),
    ("gpu=cupyy", "gpu: no backend is called 'cupyy'; use cupy"),
    ("fail-on=speedups:5%", "*'speedups' is not a metric; use speedup"),
    ("gpu=cupy:first", "gpu: the device of cupy is a number*"),
    ("gpu=cuda", "gpu: *'cuda'*use cupy, torch or jax*"),
    ("gpu=mps", "gpu: *'mps'*use torch or mlx*"),
    ("gpu=cpu", "gpu: *'cpu'*use torch:cpu, jax:cpu or standin:MODULE*"),
    ("gpu=tensorflow", "gpu: *'tensorflow'*use keras*"),
    ("max-time=small", "max-time: small is not a positive number of seconds*"),
    ("max-time=86401", "max-time*86401* is not * at most 86400 (a day)"),
    *(
        (f"cost-ratio={price}", f"cost-ratio*: {price} is not a price ratio*")
        for price in ("0", "cheap", "inf")
    ),
    ("fail=maybe", "fail*'maybe' is not one of sure, doubt, nothing"),
    ("allow=missing,gpu", "allow*'gpu' is not one of no-gpu, missing"),
    ("lock=.", "lock: * is a folder; choose a file in it"),
    ("lock=no/such/turn.lock", "lock: the folder *no/such does not exist; create it first"),
    ("lock=notes.md", "lock: *notes.md exists and was not written by * as a lock file; *"),
    ("lock=dangling", "lock: *dangling cannot be used: it is a link that leads to no file; *"),
    ("lock=", "lock: expected a path"),
]
OUTPUTS = [
    ("export=xml:x", "export: 'xml' is not an export format; use one of csv (.csv), bencher (.json),* start"),
    ("export=csv:", "export*: 'csv:' has no format or no file; expected FORMAT:PATH, e.g. csv:a.csv"),
    ("export=:a.csv", "export*: ':a.csv' has no format or no file; expected FORMAT:PATH, e.g. csv:a.csv"),
    ("json=new/", "json: new/ is a folder; choose a file in it"),
    ("json=loop", "json: *loop cannot be used: it is a link that leads to no file; remove it *"),
    ("history=dangling", "history: *dangling cannot be used: it is a link that leads to no file; *"),
    ("markdown=notes.md/x.md", "markdown: *notes.md is not a folder*"),
    ("markdown=notes.md", "markdown: *notes.md exists and was not written by pytest-gpuperf as markdown; *"),
    ("html=page.html", "html: *page.html exists and was not written by pytest-gpuperf as html; *"),
    ("history=notes.md", "history: *notes.md is not a folder*"),
    ("json=package.json", "json: *package.json exists and was not written by pytest-gpuperf as a report; *"),
    ("export=csv:package.json", "export: *package.json exists and was not written by * as csv; *"),
    ("json=pipe", "json: *pipe is not a regular file; choose another"),
    (f"markdown={'x' * 300}", "markdown: *"),
    *(
        (asked, f"{flag}: *{path} and *{other} are in each other's way; choose another place")
        for asked, flag, path, other in (
            ("json=new.json export=bencher:./new.json", "export", "new.json", "new.json of --gpuperf-json"),
            ("html=h history=./h", "history", "h", "h of --gpuperf-html"),
            ("json=out history=out/runs", "history", "out/runs", "out of --gpuperf-json"),
            ("history=runs markdown=./runs/a/it", "markdown", "runs/a/it", "runs of --gpuperf-history"),
            ("markdown=out export=csv:out/it.csv", "export", "out/it.csv", "out of --gpuperf-markdown"),
        )
    ),
]
CHECKS = [
    ("fail-on=speedup:10%", "fail-on requires --gpuperf-baseline"),
    ("baseline=none fail-on=speedup:10%", "fail-on requires --gpuperf-baseline"),
    (
        "baseline=gone.json",
        "baseline: *gone.json does not exist; --gpuperf-baseline-missing=create *with a GPU; *=no-gpu, *",
    ),
    (
        "baseline=gone.json fail-on=cpu_time:9%",
        "baseline: *gone.json does not exist; --gpuperf-baseline-missing=create creates one",
    ),
    ("baseline=notes.md", "baseline: *notes.md*not JSON*"),
    ("baseline=others/package.json", "baseline: *package.json: this is no report: *"),
    ("baseline=others", "baseline: *: this is no report: *; or move the file out of the folder"),
    ("baseline=unmeasured.json fail-on=speedup:9%", "baseline: *has no test with a speedup to compare with*"),
    (
        "baseline=base.json fail-on=first_call:10%",
        "fail-on: first_call is compared over pairs of processes: *",
    ),
    ("baseline=base.json fail-on=hours:10%", "*'hours' is not a metric; expected one of speedup, *"),
    ("baseline=base.json fail-on=gpu:10%", "*'gpu'*use gpu_time*"),
    ("baseline=base.json fail-on=always:10%", "*'always'*use with_copies*"),
    ("baseline=base.json fail-on=threshold:10%", "*use at_most in @pytest.mark.offload_threshold*"),
    ("baseline=base.json fail-on=improvement", "*improvement needs a tolerance*"),
    ("baseline=base.json fail-on=speedup:9% off", "off measures nothing, so --gpuperf-fail-on could *"),
    (
        "require-gpu gpu=sycl:cpu",
        "gpu: sycl:cpu only emulates a GPU, and --gpuperf-require-gpu requires a real one; *, sycl without *",
    ),
    *(
        (f"require-gpu gpu={choice}", f"gpu: {choice} only emulates a GPU, *")
        for choice in ("simulated", "standin:numpy", "sycl:cpu")
    ),
    ("require-gpu off", "off measures nothing, so --gpuperf-require-gpu could *"),
    ("baseline-missing=create", "baseline-missing requires --gpuperf-baseline"),
    ("baseline=base.json strict", "strict requires --gpuperf-fail-on: without it nothing fails"),
    ("baseline=base.json baseline-missing=maybe", "*'maybe' is not one of fail, create"),
    ("baseline=notes.md/kept baseline-missing=create", "baseline: *notes.md is not a folder; *"),
    (f"baseline={'x' * 300}", "baseline: *"),
    *(
        (f"baseline={name} baseline-missing={missing}", f"*{name} cannot be used: it is a link that *")
        for name in ("loop", "dangling")
        for missing in ("create", "fail")
    ),
    # No file of a run takes the place of the baseline.
    ("baseline=base.json json=./base.json", "json: the next run would be compared with *base.json*"),
    (
        "baseline=base.json export=bencher:./base.json",
        "export: *base.json exists and was not written by pytest-gpuperf as bencher; *",
    ),
    ("baseline=kept export=bencher:./kept/new.json", "export: the next run would be *new.json*"),
    ("baseline=kept json=kept/new.json fail-on=speedup:10%", "json: the next run would be *new.json*"),
    ("baseline=kept history=kept", "history: the next run would be *kept*"),
]


@pytest.fixture
def refusal(pytester):
    """Return how a session refuses its options; none of the files that are there may change."""
    for folder in ("kept", "others"):
        pytester.mkdir(folder)
    (pytester.path / "loop").symlink_to(pytester.path / "loop")
    (pytester.path / "dangling").symlink_to(pytester.path / "nothing")
    os.mkfifo(pytester.path / "pipe")
    base = document.text(run_of(recorded("test_it.py::test_bare")))
    unmeasured = document.text(run_of())
    files = {**THEIRS, "base.json": base, "kept/a.json": base, "unmeasured.json": unmeasured}
    for name, text in files.items():
        (pytester.path / name).write_text(text, encoding="utf-8")
    before = contents(pytester.path)

    def call(*asked):
        with pytest.raises(pytest.UsageError) as refused:
            pytester.parseconfigure(*asked)
        assert before == contents(pytester.path)
        return str(refused.value)

    return call


def contents(folder):
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}


@for_each(("asked", "message"), NAMES)
def test_an_option_that_is_not_ours_is_answered_with_ours(pytester, asked, message):
    with pytest.raises(pytest.UsageError) as refused:
        pytester.parseconfig(f"--gpuperf{asked}")
    assert fnmatch(str(refused.value), f"--gpuperf{message}")


@pytest.mark.skipif(os.name != "posix", reason="other systems have other links and names")
@for_each(("asked", "message"), [*VALUES, *OUTPUTS, *CHECKS])
def test_what_cannot_be_asked_is_refused_with_the_way_to_ask_it(refusal, asked, message):
    said = refusal(*(f"--gpuperf-{option}" for option in asked.split()))
    assert fnmatch(said, message if message.startswith("*") else f"--gpuperf-{message}")


IN_INI = [  # a line of the ini file without `gpuperf_`, and how it is refused
    ("gpu=tensorflow", "gpu in the ini file: *'tensorflow'*use keras*"),
    ("gpu=cupy:first", "gpu in the ini file: the device of cupy is a number*"),
    ("gpu=sycl:cpu --gpuperf-require-gpu", "gpu in the ini file: sycl:cpu only emulates a GPU, *"),
    (
        "gpu=simulated -o=gpuperf_require_gpu=1",
        "gpu in *, and gpuperf_require_gpu in the ini file requires *",
    ),
    ("max_time=0", "max_time in the ini file: 0.0 is not a positive number*"),
    ("lock=notes.md", "lock in the ini file: *notes.md exists and was not written by *"),
    ("json=new/", "json in the ini file: new/ is a folder; choose a file in it"),
    ("history=notes.md", "history in the ini file: *notes.md is not a folder*"),
    ("export=xml:x", "export in the ini file: 'xml' is not an export format; *"),
    ("export=csv:package.json", "export in the ini file: *package.json exists and was not written by *"),
    ("baseline=gone.json", "baseline in the ini file: *gone.json does not exist; *"),
]


@pytest.mark.skipif(os.name != "posix", reason="other systems have other names")
@for_each(("line", "message"), IN_INI)
def test_what_the_ini_file_asks_for_is_refused_by_its_key(refusal, line, message):
    assert fnmatch(refusal(*f"-o=gpuperf_{line}".split()), f"gpuperf_{message}")
