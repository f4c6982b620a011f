"""The workflows for CI are valid, and their commands end as their comments say, run in their order."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from cards import CARD
from cases import for_each
from repositories import git
from ruamel.yaml import YAML

from pytest_gpuperf.cli import main

FOLDER = Path(__file__).parents[2] / "examples" / "ci"
COMMENT = FOLDER / "comment.yml"
FILES = sorted({*FOLDER.glob("*.yml")} - {COMMENT})
ACTION = Path(__file__).parents[2] / "action.yml"
OURS = Path(__file__).parents[2] / ".github" / "workflows" / "ci.yml"
RELEASE = OURS.with_name("release.yml")
PROJECT = tomllib.loads((OURS.parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
README = (FOLDER / "README.md").read_text(encoding="utf-8")
GATE_IN_INI = re.findall(r"```toml\n(.*?)```", README, flags=re.DOTALL)[0]
BASELINE = Path("benchmarks", "baseline.json")
PROGRAMS = ("pytest", "gpuperf")
OTHERS = ("pip install ", "python -m venv ", "echo ", "cat ")
LEFT_BY_A_JOB = ("report.json", "junit.xml", "baseline.json")
CONDITIONS = {  # of a step: from whether all before it was green, and whether a baseline is asked for by hand
    None: lambda green, by_hand: green,
    "always()": lambda green, by_hand: True,
    "${{ !inputs.make-baseline }}": lambda green, by_hand: green and not by_hand,
    "${{ inputs.make-baseline || hashFiles('benchmarks/baseline.json') == '' }}": lambda green, by_hand: (
        green and (by_hand or not BASELINE.exists())
    ),
}
SUITE = """
    import time
    import pytest

    def work(device, seconds):
        return lambda: getattr(device, "launch", time.sleep)(seconds[device.kind])

    @pytest.mark.speedup(min=3)
    def test_filter(device):
        return work(device, {"cpu": 0.010, "gpu": 0.001})

    @pytest.mark.speedup
    def test_scan(device):
        return work(device, {"cpu": 0.004, "gpu": 0.001})

    def test_without_a_marker():
        assert True
"""
SLOWER = SUITE.replace('{"cpu": 0.010, "gpu": 0.001}', '{"cpu": 0.010, "gpu": 0.00125}')
TOO_SLOW = SUITE.replace('{"cpu": 0.010, "gpu": 0.001}', '{"cpu": 0.010, "gpu": 0.008}')
RENAMED = SUITE.replace("test_scan", "test_prefix_sum")
SHORT = "--gpuperf-max-time=0.5"  # without a GPU the suite takes real time

each_file = pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)


def workflow(file):
    return YAML(typ="safe").load(file.read_text(encoding="utf-8"))


def the_job(file):
    """Return the only job of a workflow."""
    (job,) = workflow(file)["jobs"].values()
    return job


def commands(step):
    return [line for line in step.get("run", "").splitlines() if line.startswith(PROGRAMS)]


@pytest.fixture
def job(pytester, monkeypatch):
    """Run a workflow's commands on a suite; return their exit codes, but not of `gpuperf show`."""
    (pytester.path / "benchmarks").mkdir()
    monkeypatch.setenv("GITHUB_RUN_ATTEMPT", "1")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))

    def call(name, source, *, gpu="card", by_hand=False):
        pytester.makepyfile(test_it=source)
        if gpu == "card":
            pytester.makeconftest(CARD)
        for left in LEFT_BY_A_JOB:  # actions/checkout cleans the folder
            (pytester.path / left).unlink(missing_ok=True)
        codes = {}
        for step in the_job(FOLDER / name)["steps"]:
            if CONDITIONS[step.get("if")](not any(codes.values()), by_hand):
                for line in commands(step):
                    codes[line] = code(shlex.split(os.path.expandvars(line)), gpu)
        return [code for line, code in codes.items() if not line.startswith("gpuperf show")]

    def code(words, gpu):
        program, *options = words
        if options[:1] == ["against"]:
            for_pytest = ["-ppytest_gpuperf.plugin", f"--gpuperf-gpu={gpu}"]
            options[options.index(">") :] = ["--", *for_pytest, *options[-2:]]
        if program == "gpuperf" and ">" in options:
            with Path(options[-1]).open("w", encoding="utf-8") as file, redirect_stdout(file):
                return main(options[: options.index(">")])
        if program == "gpuperf":
            return main(options)
        ours = ["-p", "no:randomly", "-W", "default"]  # and not what our own suite makes of warnings
        if gpu == "none":
            ours.append(SHORT)
        return int(pytester.runpytest_inprocess(*options, f"--gpuperf-gpu={gpu}", *ours).ret)

    return call


def test_the_workflows_meet_their_schema():
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    for schema, files in (
        ("github-workflows", [*FILES, COMMENT, OURS, RELEASE]),
        ("github-actions", [ACTION]),
    ):
        one = [*command, f"vendor.{schema}", *files]
        done = subprocess.run(one, capture_output=True, text=True, check=False, timeout=120)
        assert (0, "") == (done.returncode, done.stderr), done.stdout


@each_file
def test_a_workflow_may_only_read_ends_in_time_and_runs_no_fork_on_a_machine_of_ones_own(file):
    found, job = workflow(file), the_job(file)
    assert found["permissions"] == {"contents": "read"}
    assert found["defaults"]["run"]["shell"] == "bash"
    assert "group" in found["concurrency"]
    assert job["timeout-minutes"] <= 120
    if "pull_request" in found["on"] and "self-hosted" in job["runs-on"]:
        assert "github.event.pull_request.head.repo.full_name == github.repository" in job["if"]


@each_file
def test_every_line_of_a_workflow_is_run_here_or_known_not_to_be_and_its_extras_exist(file):
    lines = [line for step in the_job(file)["steps"] for line in step.get("run", "").splitlines()]
    assert [] == [line for line in lines if not line.startswith(PROGRAMS + OTHERS)]
    runs = [line for line in lines if line.startswith("pytest")]
    assert runs or [line for line in lines if line.startswith("gpuperf against")]
    has_gpu = "gpu" in the_job(file)["runs-on"]
    assert [has_gpu] * len(runs) == ["--gpuperf-require-gpu" in run for run in runs]
    (found,) = [step for step in the_job(file)["steps"] if step.get("uses") == "./.github/pytest-gpuperf"]
    assert {*found.get("with", {}).get("extras", "test").split(",")} <= {*PROJECT["optional-dependencies"]}


@each_file
def test_the_report_and_its_page_are_uploaded_after_a_red_run_too_under_a_name_for_each_attempt(file):
    steps = the_job(file)["steps"]
    upload, page = [step for step in steps if step.get("uses", "").startswith("actions/upload-artifact@")]
    assert upload["if"] == page["if"] == "always()"
    assert "report.json*" in upload["with"]["path"].split()
    assert (file.stem in ("cpu", "gpu", "pull-request")) == ("speedups.txt" in upload["with"]["path"].split())
    assert "github.run_attempt" in upload["with"]["name"]
    lines = " ".join(line for step in steps for line in commands(step))
    (written,) = {*re.findall(r"--(?:gpuperf-)?html[= ](\S+)", lines)}
    assert page["with"] == {
        "archive": False,  # the file's name is the artifact's
        "path": written.replace("$GITHUB_RUN_ATTEMPT", "${{ github.run_attempt }}"),
    }
    assert "github.run_attempt" in page["with"]["path"]


def test_every_option_that_their_texts_name_exists(run):
    shown = set(re.findall(r"--[a-z][a-z-]+", run("", "--help", gpu=None).stdout.str()))
    texts = "".join(path.read_text(encoding="utf-8") for path in (*FILES, FOLDER / "README.md"))
    assert set(re.findall(r"--gpuperf-[a-z-]+", texts)) <= shown


def test_the_readme_names_every_workflow():
    named = re.findall(r"^\| `(\S+\.yml)` ", README, flags=re.MULTILINE)
    assert sorted(path.name for path in [*FILES, COMMENT]) == sorted(named)


def test_the_cpu_job_is_green_without_a_gpu_and_says_what_one_must_reach(job):
    assert [0] == job("cpu.yml", SUITE, gpu="none")
    records = json.loads(Path("report.json").read_text(encoding="utf-8"))["records"]
    assert ["skipped", "skipped"] == [record["status"] for record in records]
    for name in ("summary.md", "speedups.txt", "speedups-cpu-1.html"):
        assert "test_filter" in Path(name).read_text(encoding="utf-8")


def test_the_cpu_job_has_the_gate_of_the_ini_file_and_says_that_it_has_no_gpu(job, pytester):
    (pytester.path / "pyproject.toml").write_text(GATE_IN_INI, encoding="utf-8")
    assert [4] == job("cpu.yml", SUITE, gpu="none"), "the baseline is not committed"
    job("gpu.yml", SUITE, by_hand=True)
    Path("baseline.json").rename(BASELINE)
    assert [0] == job("cpu.yml", SUITE, gpu="none")
    assert [1] == job("cpu.yml", RENAMED, gpu="none"), "a test is gone"
    assert pytester.runpytest_inprocess("--gpuperf-gpu=none", "-p", "no:randomly", SHORT).ret == 1


def test_the_first_run_is_red_and_leaves_the_baseline_of_the_gate(job, capsys):
    assert [0, 1] == job("gpu.yml", SUITE, gpu="none", by_hand=True)
    assert not Path("baseline.json").exists()
    assert [0, 0, 4] == job("gpu.yml", SUITE)
    assert f"{BASELINE.absolute()} does not exist" in capsys.readouterr().err
    Path("baseline.json").rename(BASELINE)
    assert [0, 0] == job("gpu.yml", SUITE)
    assert "1 passed, 1 recorded" in Path("speedups.txt").read_text(encoding="utf-8")
    assert [0, 1] == job("gpu.yml", SUITE, gpu="none")
    for changed in (SLOWER, RENAMED):  # red until the baseline has the change
        capsys.readouterr()
        assert [0, 1] == job("gpu.yml", changed)
        assert (f"--prune {BASELINE} report.json" in capsys.readouterr().out) == (changed != SLOWER)
        (update,) = re.findall(r"^gpuperf .*", README, flags=re.MULTILINE)
        assert main(shlex.split(update)[1:]) == 0
        assert [0, 0] == job("gpu.yml", changed)
    text = BASELINE.read_text(encoding="utf-8")
    assert '"name":"simulated GPU"' in text
    BASELINE.write_text(text.replace('"name":"simulated GPU"', '"name":"another GPU"'), encoding="utf-8")
    assert [0, 1] == job("gpu.yml", changed)
    assert [0, 0] == job("gpu.yml", changed, by_hand=True), "only a new baseline is made"
    assert {"baseline.json", "report.json", "junit.xml"} <= {path.name for path in Path().iterdir()}


def test_a_pull_request_that_changes_nothing_is_as_fast_as_its_base(job, pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others take a second in each process

    git(pytester.path, "init", "--quiet")
    pytester.makepyfile(test_it=SUITE)
    for message in ("base", "merge"):
        git(pytester.path, "add", "--all")
        git(pytester.path, "commit", "--quiet", "--allow-empty", f"--message={message}")
    assert [0] == job("pull-request.yml", SUITE, gpu="simulated")
    for name in ("speedups.txt", "speedups-pr-1.html", "report.json"):
        assert "not regressed" in Path(name).read_text(encoding="utf-8").replace("not_", "not ")


def test_the_nights_show_a_change_and_stay_green_and_a_red_one_is_kept(job, capsys):
    for night, source in enumerate([SUITE] * 5 + [SLOWER] * 5 + [TOO_SLOW], start=1):
        codes = job("nightly.yml", source)
        assert codes == ([1, 0] if source is TOO_SLOW else [0, 0])
        assert len(list(Path("speedups").iterdir())) == night
        assert Path("report.json").exists()
    assert re.search(r"from 9.95x to 7.97x \(-20 %\) at .* of \d{4}-", capsys.readouterr().out)
    assert [1, 0] == job("nightly.yml", SUITE, gpu="none")
    assert not Path("baseline.json").exists()


def test_a_nights_baseline_may_become_the_gates_and_the_nights_are_none(job, pytester):
    job("nightly.yml", SUITE)
    Path("baseline.json").rename(BASELINE)
    assert [0, 0] == job("gpu.yml", SUITE)
    assert [0, 1] == job("gpu.yml", SLOWER)
    (pytester.path / "pyproject.toml").write_text(GATE_IN_INI, encoding="utf-8")
    assert [0, 0] == job("nightly.yml", SLOWER)


def test_the_cache_has_the_folder_of_the_history_and_a_key_for_each_attempt():
    steps = the_job(FOLDER / "nightly.yml")["steps"]
    restored, saved = [step["with"] for step in steps if "actions/cache/" in step.get("uses", "")]
    pytest_line, history_line = (line for step in steps for line in commands(step))
    assert f"--gpuperf-history={saved['path']} " in pytest_line
    assert history_line.endswith(f" {saved['path']}")
    assert saved == {name: value for name, value in restored.items() if name != "restore-keys"}
    assert restored["key"].startswith(restored["restore-keys"])
    assert "github.run_id }}-${{ github.run_attempt" in saved["key"]


GH = """#!{python}
import json, os, sys
with open("calls.json", "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
path = next(word for word in sys.argv if word.startswith("repos/"))
if path.endswith("/pulls"):
    print(os.environ["PULL"], end="")
elif "--paginate" in sys.argv:
    print(os.environ["OLD"], end="")
"""
HOSTILE = (
    "test_a  passed\n```\n<script>@everyone ![x](https://evil.example)\x1b[2J\u202e\n~~~\n" + "x" * 70_000
)


@pytest.fixture
def post(tmp_path, monkeypatch):
    """Run the script of the workflow that comments; return how it called GitHub, and the comment."""
    (step,) = [step for step in the_job(COMMENT)["steps"] if "run" in step]
    (tmp_path / "bin").mkdir()
    gh = tmp_path / "bin" / "gh"
    gh.write_text(GH.format(python=sys.executable), encoding="utf-8")
    gh.chmod(0o755)

    def call(text, *, pull="7\n", old=""):
        if text is not None:
            (tmp_path / "untrusted").mkdir(exist_ok=True)
            (tmp_path / "untrusted" / "speedups.txt").write_text(text, encoding="utf-8")
        names = {name: f"a {name}; $(touch hit)" for name in step["env"]}
        told = {"GITHUB_REPOSITORY": "we/ours", "PULL": pull, "OLD": old, "TITLE": "speedups"}
        env = {**os.environ, **names, **told, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        subprocess.run(["/bin/bash", "-eo", "pipefail", "-c", step["run"]], cwd=tmp_path, env=env, check=True)
        assert not (tmp_path / "hit").exists()
        written = tmp_path / "comment.md"
        calls = tmp_path / "calls.json"
        return (
            [json.loads(line) for line in calls.read_text().splitlines()] if calls.exists() else [],
            written.read_text(encoding="utf-8") if written.exists() else None,
        )

    return call


def test_what_a_pull_request_measured_is_posted_as_text_that_nothing_can_leave(post):
    calls, comment = post(HOSTILE, pull="7\n8\n")
    assert [call[2] for call in calls if "--method" in call] == ["GET", "POST"]
    assert calls[-1][3:] == ["repos/we/ours/issues/7/comments", "-F", "body=@comment.md", "--silent"]
    assert calls[0][-3] == "head=a OWNER; $(touch hit):a BRANCH; $(touch hit)"
    mark, title, _, whose, _, fence, *shown, end = comment.splitlines()
    assert (mark, fence, end) == ("<!-- pytest-gpuperf: speedups -->", "```text", "```")
    assert whose == "What the run of this pull request printed:"
    assert title.startswith("### [speedups](")
    assert shown[0] == "test_a  passed"
    assert "<script>@everyone" in comment
    assert comment.count("`") == 6
    assert comment.isascii()
    assert "\x1b" not in comment
    assert len(comment) < 65_000


def test_the_comment_of_an_earlier_run_is_updated(post):
    calls, _ = post("2 passed", old="11\n12\n")
    assert calls[-1][1:4] == ["--method", "PATCH", "repos/we/ours/issues/comments/11"]


@for_each(("text", "pull"), [(None, "7"), ("", "7"), ("2 passed", "")])
def test_without_a_report_or_its_pull_request_nothing_is_posted(post, text, pull):
    calls, _ = post(text, pull=pull)
    assert not [call for call in calls if {"POST", "PATCH"} & {*call}]


def test_what_comments_runs_no_code_of_a_pull_request_and_may_write_nothing_else():
    found, job = workflow(COMMENT), the_job(COMMENT)
    assert [*found["on"]] == ["workflow_run"]
    assert {*found["on"]["workflow_run"]["workflows"]} == {
        workflow(FOLDER / f"{name}.yml")["name"] for name in ("cpu", "gpu", "pull-request")
    }
    assert found["permissions"] == {}
    assert job["permissions"] == {"actions": "read", "pull-requests": "write"}
    used = [step.get("uses", "").partition("@")[0] for step in job["steps"]]
    assert used == ["actions/download-artifact", ""]
    assert "${{" not in job["steps"][1]["run"]


def test_a_copy_of_the_plugin_s_repository_adds_no_test_to_a_suite(pytester):
    pytester.makepyfile(test_it=SUITE)
    copy = pytester.mkdir(".github") / "pytest-gpuperf" / "tests"
    copy.mkdir(parents=True)
    (copy / "test_ours.py").write_text("def test_ours(): pass\n", encoding="utf-8")
    result = pytester.runpytest_inprocess("--collect-only", "-q")
    assert not [line for line in result.outlines if "ours" in line]
    assert [line for line in result.outlines if "test_filter" in line]


@for_each(("expected", "extras"), [("/a copy", ""), ("/a copy[cuda13,nvml]", "cuda13,nvml")])
def test_the_action_installs_the_copy_that_it_is_in(tmp_path, expected, extras):
    (step,) = YAML(typ="safe").load(ACTION.read_text(encoding="utf-8"))["runs"]["steps"]
    pip = tmp_path / "pip"
    pip.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', encoding="utf-8")
    pip.chmod(0o755)
    env = {
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_ACTION_PATH": "/a copy",
        "EXTRAS": extras,
    }
    done = subprocess.run(
        ["/bin/bash", "-c", step["run"]], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["install", expected]


def test_what_is_cited_is_this_version():
    cited = YAML(typ="safe").load((OURS.parents[2] / "CITATION.cff").read_text(encoding="utf-8"))
    assert PROJECT["version"] == cited["version"]
