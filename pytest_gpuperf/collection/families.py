"""From the items of an offload-threshold sweep to families: items that differ in one size only."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace

import pytest

from pytest_gpuperf.collection.items import SPEC, parameters, stable_repr, sweep_key
from pytest_gpuperf.collection.markers import ThresholdDemand, size, threshold
from pytest_gpuperf.devices.spec import DeviceSpec
from pytest_gpuperf.model.demand import Family
from pytest_gpuperf.model.nodeid import function_of

_Members = dict[pytest.Function, ThresholdDemand]


def build_families(items: Iterable[pytest.Item]) -> list[str]:
    """Give the items with an offload_threshold marker their families; return what is wrong with the others.

    The items must be all of their functions, so that sizes which will not run are known too.
    """
    sweeps: dict[Hashable, _Members] = {}
    errors = []
    for item in items:
        marks = list(item.iter_markers("offload_threshold"))
        if not marks or not isinstance(item, pytest.Function):
            continue
        try:
            demand = threshold(*marks)
            _size(item, demand)
        except ValueError as error:
            errors.append(_error(item, error))
            continue
        # Without its device and its size an item is alike to the others of its family, on every GPU.
        excluded = {*item.stash[SPEC].device_parameters, demand.parameter}
        sweeps.setdefault(sweep_key(item, excluded), {})[item] = demand
    names: Counter[str] = Counter()
    for sweep in sweeps.values():
        for members in _split_by_gpu(sweep):
            try:
                _validate(members)
            except ValueError as error:
                errors.append(_error(next(iter(members)), error))
            else:
                _build(members, names)
    return errors


def _error(item: pytest.Item, error: ValueError) -> str:
    return f"{item.nodeid}: @pytest.mark.offload_threshold: {error}"


def _split_by_gpu(sweep: _Members) -> list[_Members]:
    """Return a family for each GPU that a suite's parameters name; with several GPUs, CPU items have none."""
    by_device: dict[DeviceSpec | None, _Members] = {}
    for item, demand in sweep.items():
        by_device.setdefault(item.stash[SPEC].device, {})[item] = demand
    on_gpus = [
        members for device, members in by_device.items() if device is not None and device.kind == "gpu"
    ]
    return on_gpus if len(on_gpus) > 1 else [sweep]


def _size(item: pytest.Function, demand: ThresholdDemand) -> float:
    """Return the item's size; raise ValueError when a threshold makes no sense for the item.

    A whole number comes as an int, so that reports show 4096 and not 4096.0.
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
            f"{demand.parameter}={values[demand.parameter]!r} is not a size; a size is a finite number"
        )
    return int(value) if value.is_integer() else value


def _sizes(members: Mapping[pytest.Function, ThresholdDemand]) -> list[float]:
    """Return the sizes of a family, smallest first; of two siblings only the GPU's counts."""
    return sorted(_size(item, demand) for item, demand in members.items() if item.stash[SPEC].kind != "cpu")


def _validate(members: Mapping[pytest.Function, ThresholdDemand]) -> None:
    """Raise ValueError for sizes that have no threshold, or none that could pass or fail."""
    demand = next(iter(members.values()))
    sizes = _sizes(members)
    if len(set(sizes)) < len(sizes):
        shown = ", ".join(f"{value:g}" for value in sizes)
        raise ValueError(f"{demand.parameter!r} has the same size twice: {shown}")
    if len(sizes) < 2:
        raise ValueError(f"{demand.parameter!r} needs at least two sizes")
    smallest = sizes[0]
    if demand.at_most is not None and demand.at_most < smallest:
        raise ValueError(
            f"at_most={demand.at_most:g} is below the smallest size, {smallest:g}: no run can pass"
        )
    if demand.at_least is not None and demand.at_least <= smallest:
        raise ValueError(
            f"at_least={demand.at_least:g} is not above the smallest size, {smallest:g}: no run can fail"
        )


def _name(members: Mapping[pytest.Function, ThresholdDemand]) -> str:
    """Return the function's node id with the parameters that neither the size nor the device are."""
    first, demand = next(iter(members.items()))
    excluded = {demand.parameter}
    if len({item.stash[SPEC].device for item in members}) > 1:  # else each GPU has a family and its own name
        excluded |= first.stash[SPEC].device_parameters
    others = [
        f"{name}={stable_repr(value)}" for name, value in parameters(first).items() if name not in excluded
    ]
    function = function_of(first.nodeid)
    return f"{function}[{','.join(others)}]" if others else function


def _build(members: Mapping[pytest.Function, ThresholdDemand], names: Counter[str]) -> None:
    """Give the members of one family what they share.

    A name that another family has, because two parameter values have the same text, gets a number.
    """
    demand = next(iter(members.values()))
    name = _name(members)
    names[name] += 1
    if names[name] > 1:
        name = f"{name} #{names[name]}"
    sizes = tuple(_sizes(members))
    for item in members:
        family = Family(
            name=name,
            parameter=demand.parameter,
            size=_size(item, demand),
            sizes=sizes,
            at_most=demand.at_most,
            at_least=demand.at_least,
        )
        item.stash[SPEC] = replace(item.stash[SPEC], family=family)
