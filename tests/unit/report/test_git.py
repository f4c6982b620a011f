"""The commit of a run, and its pages in a CI."""

import json
import subprocess

import pytest

GITHUB = {
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "ripple/ripple",
    "GITHUB_RUN_ID": "42",
    "GITHUB_SHA": "1a2b",
    "GITHUB_REF_NAME": "main",
}
GITLAB = {
    "CI_PROJECT_URL": "https://gitlab.com/ripple",
    "CI_JOB_URL": "https://gitlab.com/ripple/-/jobs/42",
    "CI_COMMIT_SHA": "1a2b",
}
ON_GITHUB, ON_GITLAB = "https://github.com/ripple/ripple", "https://gitlab.com/ripple/-"


@pytest.fixture
def reported(run, pytester, setting):
    """Return the commit and the job in the report of a run in a CI that sets these variables."""

    def call(variables):
        for name in (*GITHUB, *GITLAB):
            setting(name, variables.get(name))
        run("def test_it(): pass", "--gpuperf-json=r.json")
        report = json.loads((pytester.path / "r.json").read_text(encoding="utf-8"))
        return report["commit"], report["job"]

    return call


def test_a_ci_has_a_page_of_the_commit_and_one_of_the_run(reported):
    for variables, page, job in (
        (GITHUB, f"{ON_GITHUB}/commit/1a2b", f"{ON_GITHUB}/actions/runs/42"),
        (GITLAB, f"{ON_GITLAB}/commit/1a2b", f"{ON_GITLAB}/jobs/42"),
        ({"GITHUB_SHA": "1a2b", "GITHUB_RUN_ID": "42"}, None, None),
    ):
        commit, found = reported(variables)
        assert ("1a2b", page, job) == (commit["id"], commit["url"], found)
    assert (None, None) == reported({})


@pytest.mark.all_plugins  # with others, git is not asked
def test_git_is_asked_before_the_ci_which_may_have_been_started_by_another_commit(reported, pytester):
    def call(*words):
        command = ["git", "-c", "user.name=me", "-c", "user.email=me@here", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    call("init", "-q", "-b", "topic")
    (pytester.path / "tracked").touch()
    call("add", "tracked")
    call("commit", "-q", "-m", "it")
    commit, _ = reported(GITHUB)
    head = call("rev-parse", "HEAD")
    assert (head, "topic", False) == (commit["id"], commit["branch"], commit["changed"])
    assert f"{ON_GITHUB}/commit/{head}" == commit["url"]
    (pytester.path / "tracked").write_text("changed")
    assert reported(GITHUB)[0]["changed"]
