"""From the tree of a project to a folder with the project alone, which Python finds before any other copy."""

import inspect
import json
import re
import shutil
import sys
import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from pytest_gpuperf.integrations.processes import last_line, run
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.plain_text import one_line

_PIP = (sys.executable, "-P", "-m", "pip")
_LONGEST = 500  # bytes of what an installer says: a line may be a compiler's whole command
_SAYS_WHY = re.compile(r"[\w.]*(error|exception): (?!failed |[a-z]+(-[a-z]+)+$)", re.IGNORECASE)
"""What says why; that something failed is said by "error: subprocess-exited-with-error" and the like."""
_CAUSE = "cause: "  # of uv, the innermost one last
_FIND = """
import json, sys
from importlib.util import find_spec
def place(name):
    try:
        spec = find_spec(name)
    except ValueError:  # of a module that was imported from nowhere
        return None
    if spec is None or spec.has_location:
        return spec and spec.origin
    return next(iter(spec.submodule_search_locations or ()), None)  # the first part of a namespace
json.dump({"path": sys.path, "places": {name: place(name) for name in sys.argv[1:]}}, sys.stdout)
"""


class Search(NamedTuple):
    """Where a Python looks for modules, and where it finds those that were asked for."""

    path: list[str]
    places: dict[str, str | None]


def project_above(folder: Path, root: Path) -> Path | None:
    """Return the nearest folder, from this one up to the root, that can be installed."""
    above = [folder, *folder.parents]
    return next(filter(_is_project, above[: above.index(root) + 1]), None)


def _is_project(folder: Path) -> bool:
    try:
        declared = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return True  # the installer says what is wrong
    except OSError:
        declared = {}
    tools = declared.get("tool", {})
    if tools.get("uv", {}).get("package") is False or tools.get("poetry", {}).get("package-mode") is False:
        return False
    return not {"build-system", "project"}.isdisjoint(declared) or (folder / "setup.py").is_file()


def install(project: Path, site: Path, environment: Mapping[str, str], what: str) -> None:
    """Install a project, without its dependencies, into a folder; raise GpuPerfError with the reason."""
    temporary = site.with_name(f"{site.name}-temporary")  # in which a killed installer leaves its files
    temporary.mkdir(exist_ok=True)
    uv = shutil.which("uv")
    if uv is None and find_spec("pip") is None:
        raise GpuPerfError(
            f"{what} cannot be installed: neither uv nor pip is here; install one, as in: python -m ensurepip"
        )
    python = ["--python", sys.executable]
    tool = [uv, "pip", "install", "--compile-bytecode", *python] if uv else [*_PIP, "install"]
    ended = run(
        [*tool, "--quiet", "--no-deps", "--target", str(site), str(project)],
        project,
        {
            **environment,
            **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary)),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_REQUIRE_VIRTUALENV": "0",  # nothing is written outside of the folder
            "PIP_USER": "0",  # with which --target is refused
        },
    )
    if ended.returncode:
        line = one_line(reason_in(ended.stderr or ended.stdout), _LONGEST)
        more = "uv build --wheel" if uv else "pip wheel --no-deps ."
        raise GpuPerfError(f"{what} cannot be installed: {line}; in a checkout of it, {more} says more")
    site.mkdir(exist_ok=True)  # of a project without files


def reason_in(said: str) -> str:
    """Return the line in the output of pip or uv that states the cause; pip's last lines are notes."""
    lines = [line.strip() for line in said.splitlines()]
    causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
    errors = [line for line in lines if line.lower().startswith("error: ")]
    reasons = [line for line in lines if _SAYS_WHY.match(line)]
    return (reasons or causes or errors or [last_line(said)])[-1]


def modules_in(site: Path) -> list[str]:
    """Return the names by which what is in a folder is imported."""
    names = {path.name if path.is_dir() else inspect.getmodulename(path) for path in site.iterdir()}
    return sorted(name for name in names if name is not None and name.isidentifier())


def search(site: Path, folder: Path, environment: Mapping[str, str], what: str) -> Search:
    """Ask a Python that starts in this folder; it imports none of the modules."""
    ended = run([sys.executable, "-P", "-c", _FIND, *modules_in(site)], folder, environment)
    if ended.returncode:
        raise GpuPerfError(f"Python does not start in {what}: {one_line(last_line(ended.stderr), _LONGEST)}")
    return Search(**json.loads(ended.stdout))


def check_found(search: Search, site: Path, what: str) -> None:
    """Raise GpuPerfError where Python finds another copy of what was installed into a folder."""
    for module, place in search.places.items():
        if place is None or not Path(place).is_relative_to(site):
            raise GpuPerfError(
                f"{what} would import {module} from {place or 'nowhere'}, which is not its own: an editable "
                "install comes first; install the project plainly in this environment, as in: pip install ."
            )


def requirements_in(site: Path) -> frozenset[str]:
    """Return what the projects that are installed in a folder need."""
    return frozenset(each for found in distributions(path=[str(site)]) for each in found.requires or ())


def difference(base: Iterable[str], head: Iterable[str]) -> str | None:
    """Return in which requirements two sides differ; None where they do not."""
    old, new = set(base), set(head)
    needs = [
        f"{name} needs {', '.join(sorted(alone))}"
        for name, alone in (("head", new - old), ("base", old - new))
        if alone
    ]
    return f"{' and '.join(needs)}; both are measured with what is installed here" if needs else None
