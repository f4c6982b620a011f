"""From a folder and the name of a commit to what git says: which commits to compare, and what differs."""

import os
import shutil
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from subprocess import CompletedProcess

from pytest_gpuperf.integrations.processes import last_line, run
from pytest_gpuperf.model.errors import GpuPerfError

_TEST_FOLDERS = frozenset({"test", "tests", "benchmark", "benchmarks"})
_TEST_FILES = ("test_*.py", "*_test.py", "conftest.py")
_CONFIGURATION = frozenset(
    {"pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"}
)
_ELSEWHERE = frozenset(  # by which git tells a hook where to look
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_INDEX_FILE",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_WORK_TREE",
    }
)
_SAFE = (  # nothing of the user's is run, and the index stays as it is
    "--no-optional-locks",
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "submodule.recurse=false"),
)
_CHANGED = ("status", "--porcelain", "--untracked-files=all", "--no-renames", "--ignore-submodules=all", "-z")
"""`git diff` would refresh the user's index, even with `--no-optional-locks`; `git status` does not."""
_COMMITTED = ("diff-tree", "-r", "--name-only", "--no-renames", "--ignore-submodules=all", "-z")
_CODE = 3  # letters before the name: what has changed, and a blank
_SUBMODULE = "160000 "  # the mode of one in a tree of git
_UNSHALLOW = "the clone is shallow: git fetch --unshallow, or fetch-depth: 0 of actions/checkout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """The user's checkout, whose files are named from its root, and the commits to compare.

    `inside` is the folder in it that was asked about. `tests` and `configuration` are not the same in base.
    """

    root: Path
    inside: str
    base: str
    head: str
    uncommitted: tuple[str, ...]
    tests: tuple[str, ...]
    configuration: tuple[str, ...]
    repositories: tuple[str, ...]
    """Within this one: submodules, and others that git does not ignore."""


def read(ref: str, start: Path) -> Checkout:
    """Return what git says; raise GpuPerfError with what to do where it cannot."""
    root = _root(start)
    head = _commit(root, "HEAD")
    if head is None:
        raise GpuPerfError(f"{root} has no commit yet; commit first: gpuperf against compares with a commit")
    base = _merge_base(root, ref)
    changed = [entry[_CODE:] for entry in _names(root, *_CHANGED)]
    uncommitted = tuple(name for name in changed if not _is_folder(name))
    differ = dict.fromkeys((*_names(root, *_COMMITTED, base, head), *uncommitted))
    return Checkout(
        root=root,
        inside=git(start, "rev-parse", "--show-prefix"),
        base=base,
        head=head,
        uncommitted=uncommitted,
        tests=tuple(filter(is_test, differ)),
        configuration=tuple(name for name in differ if is_configuration(name) and not is_test(name)),
        repositories=(*_submodules(root), *filter(_is_folder, changed)),
    )


def is_test(name: str) -> bool:
    """Return whether a file is of the tests, and not of what they test."""
    *folders, file = name.split("/")
    return not _TEST_FOLDERS.isdisjoint(folders) or any(fnmatch(file, form) for form in _TEST_FILES)


def is_configuration(name: str) -> bool:
    """Return whether pytest may read its options, markers and paths in a file."""
    return name.rpartition("/")[2] in _CONFIGURATION


def plain_environment() -> dict[str, str]:
    """Return the environment of this process, without what leads git elsewhere."""
    return {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}


def git(folder: Path, *arguments: str) -> str:
    """Return what git says; raise GpuPerfError with its reason where it fails."""
    ended = ask(folder, *arguments)
    if ended.returncode:
        raise GpuPerfError(f"git {arguments[0]} failed: {_complaint(ended)}")
    return ended.stdout.removesuffix("\n")


def ask(folder: Path, *arguments: str) -> CompletedProcess[str]:
    """Run git without the user's hooks."""
    return run(["git", *_SAFE, *arguments], folder, plain_environment())


def _root(start: Path) -> Path:
    if shutil.which("git") is None:
        raise GpuPerfError("git is not installed, and gpuperf against compares commits of git; install it")
    asked = ask(start, "rev-parse", "--show-toplevel")
    if asked.returncode:
        why = _complaint(asked)
        raise GpuPerfError(
            f"{start} is in no checkout that git can read ({why}); call gpuperf against in one"
        )
    return Path(asked.stdout.removesuffix("\n"))


def _merge_base(root: Path, ref: str) -> str:
    if not ref or ref.startswith("-"):
        raise GpuPerfError(f"{ref!r} is no commit: name a branch, a tag or a commit, such as origin/main")
    shallow = git(root, "rev-parse", "--is-shallow-repository") == "true"
    commit = _commit(root, ref)
    if commit is None:
        remedy = how_to_get(ref, git(root, "remote").split(), shallow=shallow)
        raise GpuPerfError(f"{ref} is no commit here; {remedy}")
    found = ask(root, "merge-base", "HEAD", commit)
    if found.returncode:
        remedy = _UNSHALLOW if shallow else "name a commit that HEAD has in its history, too"
        raise GpuPerfError(f"HEAD and {ref} have no common commit here; {remedy}")
    return found.stdout.strip()


def how_to_get(ref: str, remotes: Collection[str], *, shallow: bool) -> str:
    """Return what to do for a commit that is not there."""
    if not {"^", "~", "@", ":"}.isdisjoint(ref):  # an expression, such as HEAD^1
        return _UNSHALLOW if shallow else "git log shows which there are"
    if not remotes:
        return "there is no remote to fetch it from; git branch -a lists what is here"
    remote, _, branch = ref.partition("/")
    what = f"{remote} {branch}" if branch and remote in remotes else f"origin {ref}, and name it FETCH_HEAD"
    if shallow:
        return f"fetch it first: git fetch --unshallow {what}; or set fetch-depth: 0 of actions/checkout"
    return f"fetch it first: git fetch {what}"


def _commit(root: Path, ref: str) -> str | None:
    found = ask(root, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    return found.stdout.strip() if found.returncode == 0 else None


def _submodules(root: Path) -> Iterable[str]:
    for entry in _names(root, "ls-tree", "-r", "-z", "--full-tree", "HEAD"):
        if entry.startswith(_SUBMODULE):
            yield entry.partition("\t")[2]


def _names(root: Path, *arguments: str) -> list[str]:
    return [name for name in git(root, *arguments).split("\0") if name]


def _is_folder(name: str) -> bool:
    """Return whether git names a whole folder; of files that it does not know, that is another repository."""
    return name.endswith("/")


def _complaint(ended: CompletedProcess[str]) -> str:
    lines = [line.strip() for line in ended.stderr.splitlines()]
    return next((line for line in lines if line.startswith(("fatal: ", "error: "))), last_line(ended.stderr))
