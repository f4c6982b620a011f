"""The commit of a run, and its pages in a CI."""

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


@pytest.mark.parametrize(
    ("variables", "commit", "job"),
    [
        (
            GITHUB,
            "https://github.com/ripple/ripple/commit/1a2b",
            "https://github.com/ripple/ripple/actions/runs/42",
        ),
        (GITLAB, "https://gitlab.com/ripple/-/commit/1a2b", "https://gitlab.com/ripple/-/jobs/42"),
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
