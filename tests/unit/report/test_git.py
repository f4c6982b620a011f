"""The commit of a run, and its pages in a CI."""

import subprocess
from pathlib import Path

import pytest

from pytest_gpuperf.report import git

GITHUB = {
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "ripple/ripple",
    "GITHUB_RUN_ID": "42",
    "GITHUB_SHA": "1a2b",
}
GITLAB = {
    "CI_PROJECT_URL": "https://gitlab.com/ripple",
    "CI_JOB_URL": "https://gitlab.com/ripple/-/jobs/42",
    "CI_COMMIT_SHA": "1a2b",
}
ON_GITHUB, ON_GITLAB = "https://github.com/ripple/ripple", "https://gitlab.com/ripple/-"


@pytest.mark.parametrize(
    ("variables", "commit", "job"),
    [
        (GITHUB, f"{ON_GITHUB}/commit/1a2b", f"{ON_GITHUB}/actions/runs/42"),
        (GITLAB, f"{ON_GITLAB}/commit/1a2b", f"{ON_GITLAB}/jobs/42"),
        ({"GITHUB_SHA": "1a2b", "GITHUB_RUN_ID": "42"}, None, None),
    ],
)
def test_a_ci_has_a_page_of_the_commit_and_one_of_the_run(monkeypatch, variables, commit, job):
    for name in (*GITHUB, *GITLAB):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = git.current(Path("/"))
    assert ("1a2b", commit) == (found.id, found.url)
    assert job == git.job()


def test_git_is_asked_before_the_ci_which_may_have_been_started_by_another_commit(monkeypatch, tmp_path):
    def call(*words):
        command = ["git", "-C", tmp_path, "-c", "user.name=me", "-c", "user.email=me@here", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    call("init", "-q", "-b", "topic")
    call("commit", "-q", "--allow-empty", "-m", "it")
    for name, value in {**GITHUB, "GITHUB_REF_NAME": "main"}.items():
        monkeypatch.setenv(name, value)
    found = git.current(tmp_path)
    assert (call("rev-parse", "HEAD"), "topic") == (found.id, found.branch)
    assert f"https://github.com/ripple/ripple/commit/{found.id}" == found.url
