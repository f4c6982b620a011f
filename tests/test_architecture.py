"""The house: a room imports only from lower floors, typing-only and lazy imports included."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import pytest_gpuperf

HOUSE = Path(pytest_gpuperf.__file__).parent
FLOORS = {
    "model": 1,
    "places": 1,
    "garbage": 1,
    "option": 2,
    "options": 4,
    "tolerances": 2,
    "pace": 2,
    "gate_options": 3,
    "devices": 2,
    "evidence": 2,
    "units": 2,
    "changes": 2,
    "peers": 4,
    "history": 5,
    "parity": 2,
    "documents": 2,
    "jsontext": 1,
    "layout": 2,
    "validation": 2,
    "schema": 3,
    "reading": 4,
    "store": 2,
    "environment": 2,
    "disturbances": 3,
    "verdict": 3,
    "markers": 2,
    "sides": 2,
    "fixtures": 2,
    "items": 3,
    "siblings": 4,
    "sizes": 4,
    "selection": 5,
    "finding": 6,
    "collecting": 7,
    "asking": 7,
    "groups": 2,
    "schedulers": 3,
    "scheduling": 5,
    "machine": 5,
    "bodies": 4,
    "comparisons": 9,
    "both": 11,
    "inputs": 3,
    "hookspecs": 3,
    "testing": 3,
    "estimation": 4,
    "diagnosis": 4,
    "thresholds": 4,
    "offload_words": 4,
    "report": 7,
    "measure": 4,
    "turns": 2,
    "faults": 3,
    "budget": 3,
    "timers": 2,
    "ledger": 5,
    "offload": 5,
    "calls": 5,
    "transfers": 5,
    "answers": 6,
    "asides": 6,
    "sampling": 6,
    "judgement": 7,
    "trial": 8,
    "fingerprint": 3,
    "regression": 3,
    "metrics": 5,
    "baseline": 6,
    "gating": 8,
    "joining": 8,
    "merging": 9,
    "settlement": 5,
    "families": 6,
    "session": 10,
    "unittests": 6,
    "publishing": 8,
    "commits": 2,
    "collected": 2,
    "traces": 2,
    "closing": 11,
    "hooks": 12,
    "plugin": 13,
    "command": 13,
    "__init__": 14,
}
KNOW_PYTEST = {
    "collected",
    "closing",
    "traces",
    "option",
    "gate_options",
    "options",
    "markers",
    "items",
    "siblings",
    "sizes",
    "selection",
    "finding",
    "session",
    "asking",
    "both",
    "fixtures",
    "collecting",
    "unittests",
    "hooks",
    "plugin",
    "hookspecs",
    "testing",
    "timers",
    "scheduling",
}
STANDARD_LIBRARY_ONLY = {
    "model",
    "evidence",
    "verdict",
    "store",
    "places",
    "tolerances",
    "peers",
    "units",
    "diagnosis",
    "thresholds",
    "offload",
    "fingerprint",
    "regression",
    "groups",
    "sides",
}


def room_of(path: Path) -> str:
    return path.relative_to(HOUSE).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[str]:
    """Yield every module named in an import statement, wherever in the file it stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "pytest_gpuperf":
            yield from (f"pytest_gpuperf.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield node.module or ""


def rooms_imported(path: Path) -> set[str]:
    return {name.split(".")[1] for name in imported(path) if name.startswith("pytest_gpuperf.")}


FILES = sorted(HOUSE.rglob("*.py"))


def test_every_room_has_its_floor():
    assert {room_of(path) for path in FILES} == set(FLOORS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HOUSE)))
def test_a_room_imports_only_from_lower_floors(path):
    room = room_of(path)
    above = {other for other in rooms_imported(path) - {room} if FLOORS[other] >= FLOORS[room]}
    assert not above, f"{room} (floor {FLOORS[room]}) imports {above}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HOUSE)))
def test_only_some_rooms_know_pytest(path):
    if room_of(path) not in KNOW_PYTEST:
        assert not {name for name in imported(path) if name.split(".")[0] in ("pytest", "_pytest")}


@pytest.mark.parametrize("room", sorted(STANDARD_LIBRARY_ONLY))
def test_the_pure_rooms_import_nothing_heavy(room):
    heavy = {"numpy", "jsonschema", "pluggy", "cupy", "dpnp", "dpctl", "torch", "jax"}
    files = [path for path in FILES if room_of(path) == room]
    assert files
    assert not {name.split(".")[0] for path in files for name in imported(path)} & heavy


def test_no_file_is_long():
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {name: length for name, length in lengths.items() if length > 300} == {}
