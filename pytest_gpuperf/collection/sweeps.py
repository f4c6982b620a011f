"""Sweeps: items of one function that differ in one size, or in the number of devices, and in nothing else."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_gpuperf.analysis.scaling import with_required_speedup
from pytest_gpuperf.collection import fixtures
from pytest_gpuperf.collection.items import (
    SPEC,
    UNKNOWN,
    ItemSpec,
    Problems,
    parameters,
    refuse,
    swept_key,
    test_id,
)
from pytest_gpuperf.collection.markers import named, scaling, size, threshold, why_not_timeable
from pytest_gpuperf.devices.device_parameter import DeviceSpec
from pytest_gpuperf.model.demand import Demand, SizeGroup
from pytest_gpuperf.model.nodeid import function_of
from pytest_gpuperf.model.plain_text import quote, stable_text
from pytest_gpuperf.model.scaling import Member, Scaling

SCALING = "scaling"
_THRESHOLD = "offload_threshold"
_GROUPS = ("devices", "ranks")  # of one process; of one for each device
_CPU_ONLY = (
    "no variant of the test runs on a GPU, so no size can win; add the GPU variants, or remove the marker"
)
_Members = dict[pytest.Function, SizeGroup]
"""The items of one size group, each with its own size: the name and all sizes come when all are known."""


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Parametrize our `devices` or `ranks` over the numbers of devices of a valid scaling marker."""
    marks = named(SCALING, metafunc.definition.iter_markers())
    groups = _groups(metafunc.definition)
    if not marks or len(groups) != 1:
        return  # `read_scaling` says what is wrong
    try:
        counts = scaling(*marks)[0].counts
    except ValueError:
        return
    (group,) = groups
    ids = [f"{count}{group.removesuffix('s') if count == 1 else group}" for count in counts]
    metafunc.parametrize(group, counts, indirect=True, ids=ids, scope="function")


def read_scaling(items: Iterable[pytest.Function], *, has_foreign_marker: bool) -> list[pytest.Item]:
    """Give items with a scaling marker their specs, or the problem that they have, and return them.

    Where the suite has a marker of this name of its own, those that cannot be ours are ignored.
    """
    found: list[pytest.Item] = []
    names: dict[Hashable, str] = {}
    used: Counter[str] = Counter()
    for item in items:
        marks = named(SCALING, item.iter_markers())
        if not marks:
            continue
        try:
            with Problems():
                its_own, demand = _its_scaling(item, marks)
        except ValueError as error:
            if has_foreign_marker:
                continue
            refuse(item, f"@pytest.mark.{SCALING}: {error}")
        else:
            slots = frozenset(_groups(item))
            key = swept_key(item, slots)
            if key not in names:
                names[key] = _new_name(item, slots, used)
            item.stash[SPEC] = ItemSpec(
                nodeid=test_id(item),
                demand=with_required_speedup(demand, its_own),
                slots=slots,
                scaling=replace(its_own, name=names[key]),
            )
        found.append(item)
    return found


def read_size_groups(items: Iterable[pytest.Function]) -> list[pytest.Item]:
    """Give items with an offload_threshold marker their size groups; return the items that get no group.

    The items must be all of their functions, so that sizes which will not run are known too.
    """
    groups: dict[Hashable, dict[DeviceSpec | None, _Members]] = {}
    on_cpu: list[tuple[Hashable, pytest.Item]] = []
    refused: list[pytest.Item] = []
    for item in items:
        marks = named(_THRESHOLD, item.iter_markers())
        if not marks or UNKNOWN in item.stash or (SPEC in item.stash and item.stash[SPEC].problem):
            continue
        try:
            with Problems():
                member = _member(item, threshold(*marks))
        except ValueError as error:
            refused.append(_refused(item, error))
            continue
        spec = item.stash[SPEC]
        key = swept_key(item, {*spec.device_parameters, member.parameter})
        if spec.kind == "cpu":  # of two variants the GPU's size counts
            on_cpu.append((key, item))
        else:
            groups.setdefault(key, {}).setdefault(spec.device, {})[item] = member
    refused += [_refused(item, ValueError(_CPU_ONLY)) for key, item in on_cpu if key not in groups]
    names: Counter[str] = Counter()
    for of_devices in groups.values():
        for members in of_devices.values():
            # A test that was collected twice counts once.
            by_id = {item.stash[SPEC].nodeid: member for item, member in members.items()}
            sizes = tuple(sorted(member.size for member in by_id.values()))
            first, size_group = next(iter(members.items()))
            try:
                _validate(size_group, sizes)
            except ValueError as error:
                refused += [_refused(item, error) for item in members]
                continue
            excluded = {size_group.parameter}
            if len(of_devices) == 1:  # else each GPU has a group of its own
                excluded |= first.stash[SPEC].device_parameters
            name = _new_name(first, excluded, names)
            for item, member in members.items():
                in_group = replace(member, name=name, sizes=sizes)
                item.stash[SPEC] = item.stash[SPEC]._replace(size_group=in_group)
    return refused


def _new_name(item: pytest.Item, excluded: Collection[str], names: Counter[str]) -> str:
    """Return the function's node id with the parameters that are not swept, which no other group has."""
    others = [
        f"{name}={stable_text(value)}" for name, value in parameters(item).items() if name not in excluded
    ]
    function = function_of(test_id(item))
    name = f"{function}[{','.join(others)}]" if others else function
    names[name] += 1
    return name if names[name] == 1 else f"{name} #{names[name]}"  # two values have the same text


def _refused(item: pytest.Item, error: ValueError) -> pytest.Item:
    refuse(item, f"@pytest.mark.{_THRESHOLD}: {error}")
    return item


def _groups(item: Any) -> list[str]:
    """Return which of our fixtures for several devices the test function takes."""
    return [name for name in _GROUPS if fixtures.takes(item, name)]


def _its_scaling(item: pytest.Function, marks: list[pytest.Mark]) -> tuple[Scaling, Demand]:
    """Return what an item's marker requires of it; raise ValueError with what is wrong with the marker."""
    of_all, demand = scaling(*marks)
    if item.get_closest_marker("speedup") is not None:
        raise ValueError("the test has a speedup marker, too; write one test for each")
    groups = _groups(item)
    if not groups:
        raise ValueError(
            "the test must take the fixture `devices` of pytest-gpuperf, not one of its own; or `ranks`, "
            "with a process for each device, as torchrun starts them"
        )
    if len(groups) > 1:
        raise ValueError("the test takes `devices` and `ranks`: one process drives all, or each has its own")
    if (reason := why_not_timeable(item)) is not None:
        raise ValueError(reason.replace("speedup test", "scaling test"))
    (group,) = groups
    if group not in parameters(item):
        raise ValueError("the marker was added after collection; add it where the test is defined")
    member: Member = "rank" if group == "ranks" else "device"
    return replace(of_all, count=parameters(item)[group], member=member), demand


def _member(item: pytest.Function, demand: SizeGroup) -> SizeGroup:
    """Return a size group of this item only; raise ValueError when a threshold makes no sense for the item.

    A whole number as size is an int, so that reports show 4096 and not 4096.0.
    """
    if SPEC not in item.stash:
        raise ValueError("needs a speedup test; add @pytest.mark.speedup too")
    values = parameters(item)
    if demand.parameter not in values:
        names = ", ".join(values) or "none"
        raise ValueError(f"the test has no parameter {demand.parameter!r}; its parameters: {names}")
    value = size(values[demand.parameter])
    if value is None:
        raise ValueError(
            f"{demand.parameter}={quote(values[demand.parameter])} is not a size; a size is a finite number"
        )
    value = int(value) if value.is_integer() else value
    return replace(demand, size=value)


def _validate(size_group: SizeGroup, sizes: tuple[float, ...]) -> None:
    """Raise ValueError for sizes that have no threshold, or none that could pass or fail."""
    if len(set(sizes)) < len(sizes):
        shown = ", ".join(f"{value:g}" for value in sizes)
        raise ValueError(f"{size_group.parameter!r} has the same size twice: {shown}")
    if len(sizes) < 2:
        raise ValueError(f"{size_group.parameter!r} needs at least two sizes")
    smallest = sizes[0]
    if size_group.at_most is not None and size_group.at_most < smallest:
        raise ValueError(
            f"at_most={size_group.at_most:g} is below the smallest size, {smallest:g}: no run can pass"
        )
    if size_group.at_least is not None and size_group.at_least <= smallest:
        raise ValueError(
            f"at_least={size_group.at_least:g} is not above the smallest size, {smallest:g}: no run can fail"
        )
