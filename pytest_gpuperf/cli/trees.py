"""From a commit to two whole trees of a project, base and head, each with its project installed in front.

What is installed beside the project is the same on both sides: the environment that this command runs in. In
the user's repository only `.git/worktrees` is written, and that is undone.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from pytest_gpuperf.cli import checkout, installed, scratch
from pytest_gpuperf.cli.checkout import Checkout, ask, git, plain_environment
from pytest_gpuperf.integrations.processes import ended_by_exceptions
from pytest_gpuperf.model.errors import GpuPerfError

_PREFIX = "gpuperf-against-"
_REPOSITORY = "repository"  # names it, for the run of another one that finds the folder left behind
_FEW = 3  # files that are named


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """One side: a tree of the whole repository, in which `python -P -m pytest` measures that side's project.

    `folder` is where to start it: as far below the tree's `root` as the command is below the user's, the
    `checkout`. Its processes need this `environment`. `described` names the commit, and which files are not
    as it has them.
    """

    name: Literal["base", "head"]
    commit: str
    described: str
    checkout: Path
    root: Path
    folder: Path
    environment: Mapping[str, str]

    def moved(self, word: str) -> str:
        """Return a word for pytest in which a path into the checkout leads into this tree."""
        option, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
        return f"{option}{equals}{_moved(value, self.checkout, self.root)}"

    def of_checkout(self, files: Iterable[str]) -> list[str]:
        """Return which of these files are the user's own, and so the same code on both sides."""
        return sorted({file for file in files if _is_in(self.checkout, file)})

    def restore(self, file: str) -> bool:
        """Make a file what it is in the tree's commit; return whether there is one."""
        return ask(self.root, "checkout", "--quiet", self.commit, "--", file).returncode == 0


class Trees(NamedTuple):
    """Both sides, what a reader must know of them, and a folder that is removed with them.

    `tests` are the files that base has from head, named from the root.
    """

    base: Tree
    head: Tree
    notes: tuple[str, ...]
    folder: Path
    tests: tuple[str, ...] = ()


class _Side(NamedTuple):
    tree: Tree
    project: Path | None
    requirements: frozenset[str]


@contextmanager
def two_trees(ref: str, start: Path) -> Iterator[Trees]:
    """Check out and install the merge base of `ref` and HEAD, and HEAD as it is here; remove both later.

    Tests and pytest's configuration are head's on both sides: the projects are compared, by the same tests
    and options. Raises GpuPerfError that says what to do. Only the main thread may call this: it sets
    handlers of signals.
    """
    with ended_by_exceptions():
        scratch.remove_left_behind(_PREFIX, _forget)
        found = checkout.read(ref, start)
        with scratch.temporary_folder(_PREFIX, _forget) as home:
            (home / _REPOSITORY).write_bytes(os.fsencode(found.root))
            base, head = _base(found, home), _head(found, home)
            yield Trees(base.tree, head.tree, tuple(_notes(found, base, head)), home, found.tests)


def _base(found: Checkout, home: Path) -> _Side:
    root = _check_out(found, home / "base", found.base, found.tests)
    others = with_heads(tests=found.tests, configuration=found.configuration)
    side = _side(found, "base", found.base, f"{found.base[:7]}{others}", root)
    # After the installation: pyproject.toml configures the build, too, and base must be built with its own.
    _lay_over(found.root, root, found.configuration)
    return side


def _head(found: Checkout, home: Path) -> _Side:
    root = _check_out(found, home / "head", found.head, found.uncommitted)
    changes = f" with uncommitted changes ({listed(found.uncommitted)})" if found.uncommitted else ""
    return _side(found, "head", found.head, f"{found.head[:7]}{changes}", root)


def _check_out(found: Checkout, folder: Path, commit: str, files: Iterable[str]) -> Path:
    """Make a worktree of a commit with files of the user's checkout; return its root."""
    root = _root(folder, found.root)
    git(found.root, "worktree", "add", "--quiet", "--detach", str(root), commit)
    _lay_over(found.root, root, files)
    return root


def _root(folder: Path, of: Path) -> Path:
    """Return the root of a tree: named as the user's, by which a package that is all of it is imported."""
    return folder / (of.name or "root")


def _side(found: Checkout, name: Literal["base", "head"], commit: str, described: str, root: Path) -> _Side:
    """Install the project of a tree, if there is one, and see that Python finds it."""
    folder, site = root / found.inside, root.parent.with_name(f"{name}-site")
    folder.mkdir(parents=True, exist_ok=True)  # one that is new in head
    what = f"{name} ({commit[:7]})"
    project = installed.project_above(folder, root)
    if project is None:
        site.mkdir()
    else:
        installed.install(project, site, plain_environment(), what)
    environment = _environment(found.root, root, site)
    search = installed.search(site, folder, environment, what)
    installed.check_found(search, site, what)
    if project is None:
        _check_apart(search.path, found.root, what)
    tree = Tree(
        name=name,
        commit=commit,
        described=described,
        checkout=found.root,
        root=root,
        folder=folder,
        environment=environment,
    )
    return _Side(tree, project, installed.requirements_in(site))


def _environment(root: Path, tree: Path, site: Path) -> dict[str, str]:
    """Return this process's environment, in which Python finds a project in its folder.

    A path into the user's checkout, which would be the same code on both sides, leads into the tree.
    """
    environment = plain_environment()
    paths = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    environment["PYTHONPATH"] = os.pathsep.join([str(site), *(_moved(path, root, tree) for path in paths)])
    environment.pop("PYTHONPYCACHEPREFIX", None)  # compiled files would be left there
    temporary = site.with_name(f"{site.name}-temporary")  # and what tests leave
    temporary.mkdir(exist_ok=True)
    return environment | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))


def _moved(path: str, root: Path, tree: Path) -> str:
    return str(tree / Path(path).resolve().relative_to(root)) if _is_in(root, path) else path


def _check_apart(path: Iterable[str], root: Path, what: str) -> None:
    """Raise GpuPerfError where Python looks for modules in the checkout, which has the same on both sides."""
    for place in path:
        if _is_in(root, place):
            raise GpuPerfError(
                f"{what} would import modules from {place}, which is not its own: an editable "
                "install says so; call gpuperf against in the folder of that project, or uninstall it here"
            )


def _is_in(root: Path, path: str) -> bool:
    """Return whether an absolute path is in the checkout; an environment that lies there is no part of it."""
    real, environment = Path(path).resolve(), Path(sys.prefix).resolve()
    return Path(path).is_absolute() and real.is_relative_to(root) and not real.is_relative_to(environment)


def _notes(found: Checkout, base: _Side, head: _Side) -> Iterator[str]:
    needs = installed.difference(base.requirements, head.requirements)
    if needs is not None:
        yield needs
    plain = [side.tree.name for side in (base, head) if side.project is None]
    if plain:
        yield (
            f"{' and '.join(plain)}: no project to install in {found.inside or '.'} or above it; tests "
            "import what is in the tree, by pytest's rootdir or its option pythonpath"
        )
    if found.repositories:
        yield f"repositories in this one are in neither tree: {listed(found.repositories)}"


def with_heads(**kinds: Sequence[str]) -> str:
    """Return which of base's files are head's: ` with head's tests (test_it.py)`."""
    named = [f"{kind} ({listed(names)})" for kind, names in kinds.items() if names]
    return f" with head's {' and '.join(named)}" if named else ""


def listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return f"{', '.join(names[:_FEW])}{more}"


def _lay_over(checkout_root: Path, root: Path, files: Iterable[str]) -> None:
    """Make files of a tree what they are in the checkout: the same, or not there."""
    for name in files:
        theirs, ours = checkout_root / name, root / name
        if theirs.is_symlink() or theirs.is_file():
            _make_way(root, name)
            shutil.copy2(theirs, ours, follow_symlinks=False)
        elif ours.is_symlink() or ours.is_file():
            ours.unlink()


def _make_way(root: Path, name: str) -> None:
    """Let a file be written in a tree, where base may have a file, or a link, as a folder of its path."""
    path = root / name
    for folder in reversed(Path(name).parents[:-1]):
        above = root / folder
        if above.is_symlink() or above.is_file():  # a link may lead into the user's files
            above.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def _forget(home: Path) -> None:
    """Let git forget the worktrees in a folder, which may be of another repository than this run's."""
    with suppress(OSError):
        root = Path(os.fsdecode((home / _REPOSITORY).read_bytes()))
        for name in ("base", "head"):  # forced twice: git locks one that it has not finished
            ask(root, "worktree", "remove", "--force", "--force", str(_root(home / name, root)))
