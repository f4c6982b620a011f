"""From items of several sizes to families, of each of which a threshold is asked."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace

import pytest

from pytest_gpuperf.collection.items import SHAPE, parameters, shared, word
from pytest_gpuperf.collection.markers import ThresholdDemand, size, threshold
from pytest_gpuperf.devices.spec import DeviceSpec
from pytest_gpuperf.model.demand import Family
from pytest_gpuperf.model.nodeid import function_of

__all__ = ["families"]


def families(items: Iterable[pytest.Item]) -> list[str]:
    """Give the items of which a threshold is asked their families; return what is wrong with the others.

    The items are all of their functions, so that sizes which will not run are known, too.
    """
    members: dict[Hashable, dict[pytest.Function, ThresholdDemand]] = {}
    wrong = []
    for item in items:
        marks = list(item.iter_markers("offload_threshold"))
        if not marks or not isinstance(item, pytest.Function):
            continue
        try:
            asked = threshold(*marks)
            _check_size(item, asked.parameter)
            members.setdefault(_common(item, asked), {})[item] = asked
        except ValueError as error:
            wrong.append(f"{item.nodeid}: @pytest.mark.offload_threshold: {error}")
    names: Counter[str] = Counter()
    for family in [each for common in members.values() for each in _by_device(common)]:
        try:
            _join(family, names)
        except ValueError as error:
            wrong.append(f"{next(iter(family)).nodeid}: @pytest.mark.offload_threshold: {error}")
    return wrong


def _common(item: pytest.Function, asked: ThresholdDemand) -> Hashable:
    """Return what the items of one family, or of one for each GPU, share."""
    return shared(item, {*item.stash[SHAPE].told, asked.parameter})


def _by_device(
    members: dict[pytest.Function, ThresholdDemand],
) -> list[dict[pytest.Function, ThresholdDemand]]:
    """Return a family for each GPU of a suite's own; where there are several, their CPU is in none."""
    on: dict[DeviceSpec | None, dict[pytest.Function, ThresholdDemand]] = {}
    for item, asked in members.items():
        on.setdefault(item.stash[SHAPE].side, {})[item] = asked
    several = [family for side, family in on.items() if side is not None and side.kind == "gpu"]
    return several if len(several) > 1 else [members]


def _check_size(item: pytest.Function, parameter: str) -> None:
    """Raise ValueError when a threshold over that parameter makes no sense for the item."""
    if SHAPE not in item.stash:
        raise ValueError("needs a speedup test; mark it with @pytest.mark.speedup too")
    known = parameters(item)
    if parameter not in known:
        there = ", ".join(known) or "none"
        raise ValueError(f"the test has no parameter {parameter!r}; its parameters: {there}")
    if size(known[parameter]) is None:
        raise ValueError(f"{parameter}={known[parameter]!r} has no order; a size is a finite number")


def _join(members: Mapping[pytest.Function, ThresholdDemand], names: Counter[str]) -> None:
    """Give the members of one family what they share; raise ValueError for sizes without a threshold.

    A family whose name is taken, because a word does not tell its parameters apart, gets a number.
    """
    first, asked = next(iter(members.items()))
    shapes = {item: item.stash[SHAPE] for item in members}
    # Of two siblings the GPU's stands for the size.
    sizes = sorted(_size(item, asked) for item, shape in shapes.items() if shape.kind != "cpu")
    if len(set(sizes)) < len(sizes):
        raise ValueError(f"{asked.parameter!r} has a size twice: {', '.join(f'{each:g}' for each in sizes)}")
    if len(sizes) < 2:
        raise ValueError(f"{asked.parameter!r} has one size only; a threshold lies between two")
    if asked.at_most is not None and asked.at_most < sizes[0]:
        raise ValueError(
            f"at_most={asked.at_most:g} is below the smallest size, {sizes[0]:g}: no run can pass"
        )
    if asked.at_least is not None and asked.at_least <= sizes[0]:
        raise ValueError(
            f"at_least={asked.at_least:g} is not above the smallest size, {sizes[0]:g}: none can fail"
        )
    alone = len({shape.side for shape in shapes.values()}) == 1  # of several GPUs, each has its name
    told = set() if alone else shapes[first].told
    others = {
        name: value for name, value in parameters(first).items() if name not in {*told, asked.parameter}
    }
    named = ",".join(f"{name}={word(value)}" for name, value in others.items())
    name = function_of(first.nodeid) + (f"[{named}]" if named else "")
    names[name] += 1
    family = Family(
        name=name if names[name] == 1 else f"{name} #{names[name]}",
        parameter=asked.parameter,
        size=sizes[0],
        sizes=tuple(sizes),
        at_most=asked.at_most,
        at_least=asked.at_least,
    )
    for item, shape in shapes.items():
        item.stash[SHAPE] = replace(shape, family=replace(family, size=_size(item, asked)))


def _size(item: pytest.Function, asked: ThresholdDemand) -> float:
    found = size(parameters(item)[asked.parameter])
    return math.nan if found is None else int(found) if found.is_integer() else found
