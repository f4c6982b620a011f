"""From a folder to the commit that is checked out in it, and from a CI's environment to its pages."""

import os
import subprocess
from pathlib import Path

from pytest_gpuperf.model.comparison import Commit

_SECONDS = 5  # that git may take
_BRANCHES = ("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME")


def current(folder: Path) -> Commit | None:
    """Return the commit that git, or else the CI's environment, names; None outside of a repository."""
    # Git first: on a runner a job may have checked out another commit than the one that triggered it.
    head = _git(folder, "log", "-1", "--no-show-signature", "--format=%H %cI") or ""
    name, _, time = head.partition(" ")
    name = name or _first_variable("GITHUB_SHA", "CI_COMMIT_SHA") or ""
    if not name:
        return None
    branch = (head and _git(folder, "branch", "--show-current")) or _first_variable(*_BRANCHES)
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no") if head else None
    return Commit(
        id=name,
        branch=branch,
        time=time or None,
        changed=None if changed is None else bool(changed),
        url=_commit_page(name),
    )


def job() -> str | None:
    """Return the address of the page of this run in the CI, GitHub's or GitLab's; None outside of both."""
    repository, run = _on_github(), os.environ.get("GITHUB_RUN_ID")
    return f"{repository}/actions/runs/{run}" if repository and run else os.environ.get("CI_JOB_URL") or None


def _commit_page(name: str) -> str | None:
    repository, project = _on_github(), os.environ.get("CI_PROJECT_URL")
    if repository:
        return f"{repository}/commit/{name}"
    return f"{project}/-/commit/{name}" if project else None


def _on_github() -> str | None:
    server, name = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    return f"{server}/{name}" if server and name else None


def _git(folder: Path, *arguments: str) -> str | None:
    """Return git's output; None where git is not installed, fails, or takes too long."""
    command = ["git", "-C", str(folder), "--no-optional-locks", *arguments]
    try:
        result = subprocess.run(  # noqa: S603 - fixed arguments, and no shell
            command, capture_output=True, text=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return result.stdout.strip() if result.returncode == 0 else None


def _first_variable(*names: str) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)
