"""From the items with an offload_threshold marker to size groups: those that differ in one size only."""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import replace

import pytest

from pytest_gpuperf.collection.items import SPEC, UNKNOWN, parameters, refuse, size_group_key
from pytest_gpuperf.collection.markers import named, size, threshold
from pytest_gpuperf.devices.device_parameter import DeviceSpec
from pytest_gpuperf.model.demand import SizeGroup
from pytest_gpuperf.model.nodeid import function_of
from pytest_gpuperf.model.plain_text import quote, stable_text

_Members = dict[pytest.Function, SizeGroup]
"""The items of one size group, each with its own size: the name and all sizes come when all are known."""


def build_size_groups(items: Iterable[pytest.Function]) -> list[pytest.Item]:
    """Give items with an offload_threshold marker their size groups; return those for which there is none.

    The items must be all of their functions, so that sizes which will not run are known too.
    """
    groups: dict[Hashable, _Members] = {}
    refused: list[pytest.Item] = []
    for item in items:
        marks = named("offload_threshold", item.iter_markers())
        if not marks or UNKNOWN in item.stash or (SPEC in item.stash and item.stash[SPEC].problem):
            continue
        try:
            member = _member(item, threshold(*marks))
        except ValueError as error:
            refused.append(_refused(item, error))
            continue
        # Without its device and its size an item is alike to the others of its size group, on every GPU.
        excluded = {*item.stash[SPEC].device_parameters, member.parameter}
        groups.setdefault(size_group_key(item, excluded), {})[item] = member
    names: Counter[str] = Counter()
    for members in (members for group in groups.values() for members in _split_by_gpu(group)):
        # Of two variants only the GPU's size counts, and a test that was collected twice counts once.
        specs = {item.stash[SPEC].nodeid: (item.stash[SPEC], one) for item, one in members.items()}
        sizes = tuple(sorted(one.size for spec, one in specs.values() if spec.kind != "cpu"))
        try:
            _validate(next(iter(members.values())), sizes)
        except ValueError as error:
            refused += [_refused(item, error) for item in members]
            continue
        name = _name(members)
        names[name] += 1
        if names[name] > 1:  # two parameter values have the same text
            name = f"{name} #{names[name]}"
        for item, member in members.items():
            item.stash[SPEC] = item.stash[SPEC]._replace(size_group=replace(member, name=name, sizes=sizes))
    return refused


def _refused(item: pytest.Item, error: ValueError) -> pytest.Item:
    refuse(item, f"@pytest.mark.offload_threshold: {error}")
    return item


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


def _split_by_gpu(group: _Members) -> list[_Members]:
    """Return one group for each GPU that a suite's parameters name; with several, CPU items have none."""
    by_gpu: dict[DeviceSpec, _Members] = {}
    for item, member in group.items():
        device = item.stash[SPEC].device
        if device is not None and device.kind == "gpu":
            by_gpu.setdefault(device, {})[item] = member
    return list(by_gpu.values()) if len(by_gpu) > 1 else [group]


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


def _name(members: _Members) -> str:
    """Return the function's node id with the parameters that neither the size nor the device are."""
    first, size_group = next(iter(members.items()))
    excluded = {size_group.parameter}
    if len({item.stash[SPEC].device for item in members}) > 1:  # else each GPU has a group of its own
        excluded |= first.stash[SPEC].device_parameters
    others = [
        f"{name}={stable_text(value)}" for name, value in parameters(first).items() if name not in excluded
    ]
    function = function_of(first.stash[SPEC].nodeid)
    return f"{function}[{','.join(others)}]" if others else function
