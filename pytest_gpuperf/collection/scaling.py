"""From scaling markers to items: one for each number of devices, which its parameter `devices` is."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from pytest_gpuperf.analysis.scaling import with_required_speedup
from pytest_gpuperf.collection import fixtures
from pytest_gpuperf.collection.items import SPEC, ItemSpec, parameters, refuse, test_id, why_not_timeable
from pytest_gpuperf.collection.markers import named, scaling
from pytest_gpuperf.model.nodeid import function_of, parameters_of
from pytest_gpuperf.model.plain_text import stable_text

MARKER = "scaling"
FIXTURE = "devices"


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Parametrize our `devices` over the numbers of devices of a valid scaling marker."""
    marks = named(MARKER, metafunc.definition.iter_markers())
    if not marks or not fixtures.takes(metafunc.definition, FIXTURE):
        return  # `read` says what is wrong
    try:
        counts = scaling(*marks)[0].counts
    except ValueError:
        return
    metafunc.parametrize(FIXTURE, counts, indirect=True, ids=map(_id, counts), scope="function")


def read(items: Iterable[pytest.Function], *, has_foreign_marker: bool) -> list[pytest.Item]:
    """Give items with a scaling marker their specs, or the problem that they have, and return them.

    Where the suite has a marker of this name of its own, those that cannot be ours are ignored.
    """
    found: list[pytest.Item] = []
    for item in items:
        marks = named(MARKER, item.iter_markers())
        if not marks:
            continue
        try:
            item.stash[SPEC] = _spec(item, marks)
        except ValueError as error:
            if has_foreign_marker:
                continue
            refuse(item, f"@pytest.mark.{MARKER}: {error}")
        found.append(item)
    _tell_apart(found)
    return found


def _tell_apart(items: Sequence[pytest.Item]) -> None:
    """Rename groups whose names are equal, as those of values with the same text are: by their ids."""
    groups = Counter((one.name, one.count) for item in items if (one := item.stash[SPEC].scaling))
    for item in items:
        spec = item.stash[SPEC]
        if (one := spec.scaling) and groups[one.name, one.count] > 1:
            function = function_of(spec.nodeid)
            ids = parameters_of(spec.nodeid)
            others = re.sub(rf"(^|-){_id(one.count)}(?=-|$)", "", ids, count=1).removeprefix("-")
            item.stash[SPEC] = spec._replace(scaling=replace(one, name=f"{function}[{others}]"))


def _id(count: int) -> str:
    return f"{count}device{'' if count == 1 else 's'}"


def _spec(item: pytest.Function, marks: list[pytest.Mark]) -> ItemSpec:
    """Return the spec of an item; raise ValueError with what is wrong with its marker."""
    demanded, demand = scaling(*marks)
    if item.get_closest_marker("speedup") is not None:
        raise ValueError("the test has a speedup marker, too; write one test for each")
    if not fixtures.takes(item, FIXTURE):
        raise ValueError("the test must take the fixture `devices` of pytest-gpuperf, not one of its own")
    if (reason := why_not_timeable(item)) is not None:
        raise ValueError(reason.replace("speedup test", "scaling test"))
    values = parameters(item)
    if FIXTURE not in values:
        raise ValueError("the marker was added after collection; add it where the test is defined")
    count = values[FIXTURE]
    others = [f"{name}={stable_text(value)}" for name, value in values.items() if name != FIXTURE]
    nodeid = test_id(item)
    function = function_of(nodeid)
    its_own = replace(
        demanded,
        name=f"{function}[{','.join(others)}]" if others else function,
        count=count,
    )
    return ItemSpec(
        nodeid=nodeid,
        demand=with_required_speedup(demand, its_own),
        slots=frozenset((FIXTURE,)),
        scaling=its_own,
    )
