"""CPU and GPU variants: which items are compared with each other, which run first and in one process."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict

import pytest

from pytest_gpuperf.collection.items import SPEC, ItemSpec
from pytest_gpuperf.devices.device_parameter import DeviceSpec
from pytest_gpuperf.model.demand import Demand

_Group = list[tuple[pytest.Item, ItemSpec]]


def pair_items(items: Iterable[pytest.Item], *, across_functions: bool) -> list[str]:
    """Give each GPU variant the CPU variant that it is compared with; return what is wrong with the others.

    The items must be all that were collected, so that variants which will not run are known too.
    """
    errors = []
    for whole in group_by_pair(items, across_functions=across_functions):
        for group in _by_module(whole) if across_functions else [whole]:
            errors += _pair_two(*group) if len(group) == 2 else _pair_group(group)
    return errors


def group_by_pair(items: Iterable[pytest.Item], *, across_functions: bool) -> Iterable[_Group]:
    """Return the items that differ in their device only, either of one function or of several."""
    groups: dict[Hashable, _Group] = {}
    for item in items:
        spec = item.stash[SPEC]
        pair = spec.pair
        if pair is None or (pair.kind != "function") != across_functions:
            continue
        if (group := groups.get(pair)) is None:
            groups[pair] = [(item, spec)]
        else:
            group.append((item, spec))
    return groups.values()


def _by_module(group: _Group) -> Iterable[_Group]:
    """Return the items of each module, if each has both devices: a name may be used in several modules."""
    modules: dict[pytest.Module | None, _Group] = {}
    for item, spec in group:
        modules.setdefault(item.getparent(pytest.Module), []).append((item, spec))
    kinds = [{spec.kind for _, spec in items} for items in modules.values()]
    return modules.values() if all({"cpu", "gpu"} <= found for found in kinds) else [group]


def in_order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the items in their order, but each GPU variant after its CPU variant."""
    specs = [item.stash.get(SPEC, None) for item in items]
    cpus = {spec.nodeid for spec in specs if spec is not None and spec.partner is None}
    ordered: list[pytest.Item] = []
    waiting: dict[str, list[pytest.Item]] = {}
    for item, spec in zip(items, specs, strict=True):
        if spec is not None and spec.partner in cpus:
            waiting.setdefault(spec.partner or "", []).append(item)
            continue
        ordered.append(item)
        if spec is not None:
            cpus.discard(spec.nodeid)
            ordered += waiting.pop(spec.nodeid, ())
    return ordered


def worker_groups(items: Sequence[pytest.Item]) -> list[list[int]]:
    """Return the indices of items that one process must run: variants, and the sizes of a size group.

    Pairs and size groups overlap (each size is a pair itself), so the two are joined by union-find.
    """
    parents: dict[str, str] = {}

    def root(name: str) -> str:
        while parents.setdefault(name, name) != name:
            name = parents[name]
        return name

    names = [_group_names(item) for item in items]
    for first, *others in filter(None, names):
        for other in others:
            parents[root(first)] = root(other)
    groups: dict[str, list[int]] = {}
    for index, of_item in enumerate(names):
        if of_item:
            groups.setdefault(root(of_item[0]), []).append(index)
    return [group for group in groups.values() if len(group) > 1]


def must_run_before(items: Iterable[pytest.Item]) -> dict[int, int]:
    """Return the index of the CPU variant that has to run before each GPU variant, by the GPU's index."""
    specs = [item.stash.get(SPEC, None) for item in items]
    indices = {spec.nodeid: index for index, spec in enumerate(specs) if spec is not None}
    return {
        index: indices[spec.partner]
        for index, spec in enumerate(specs)
        if spec is not None and spec.partner in indices
    }


def add_missing_cpu_variants(
    selected: Iterable[pytest.Item], collected: Iterable[pytest.Item]
) -> list[pytest.Item]:
    """Return the selected items, with each CPU variant that is not among them before its GPU variant."""
    items = list(selected)
    present = {spec.nodeid for item in items if (spec := item.stash.get(SPEC, None)) is not None}
    missing = {item.stash[SPEC].nodeid: item for item in collected if item.stash[SPEC].nodeid not in present}
    complete = []
    for item in items:
        spec = item.stash.get(SPEC, None)
        if spec is not None and spec.partner is not None and spec.partner in missing:
            complete.append(missing.pop(spec.partner))
        complete.append(item)
    return complete


def _pair_two(one: tuple[pytest.Item, ItemSpec], other: tuple[pytest.Item, ItemSpec]) -> list[str]:
    """Pair two items: the short way for most groups, a CPU and a GPU variant under one marker."""
    (_, cpu), (item, gpu) = (one, other) if one[1].kind == "cpu" else (other, one)
    if (cpu.kind, gpu.kind) != ("cpu", "gpu") or cpu.demand is not gpu.demand:
        return _pair_group([one, other])
    item.stash[SPEC] = gpu._replace(partner=cpu.nodeid)
    return []


def _pair_group(group: Sequence[tuple[pytest.Item, ItemSpec]]) -> list[str]:
    """Pair the items of one group, of which several may work on CPU or GPU."""
    errors = _same_device_errors(group)
    cpus = [(item, spec) for item, spec in group if spec.kind == "cpu"]
    gpus = [(item, spec) for item, spec in group if spec.kind == "gpu"]
    if not cpus or not gpus:
        return errors
    for item, spec in gpus if not errors else []:
        partner = _partner(spec, [cpu for _, cpu in cpus])
        if partner is None:
            candidates = ", ".join(cpu.nodeid for cpu, _ in cpus)
            errors.append(
                f"{item.nodeid}: which CPU test it is compared with is ambiguous ({candidates}): none of "
                "them uses the same library, and none uses NumPy"
            )
        elif partner.demand != spec.demand and not partner.demand.bare:
            errors.append(
                f"{item.nodeid}: requires {_arguments(spec.demand)}, but its CPU variant {partner.nodeid} "
                f"{_arguments(partner.demand)}; the marker arguments of the two must agree, or be given on "
                "one of them only"
            )
        else:
            item.stash[SPEC] = spec._replace(partner=partner.nodeid)
    for item, spec in cpus:
        if spec.demand.bare:
            item.stash[SPEC] = spec._replace(demand=gpus[0][1].demand)
    return errors


def _partner(gpu: ItemSpec, cpus: Sequence[ItemSpec]) -> ItemSpec | None:
    """Return the only CPU variant; of several, the one of the GPU's own library, else NumPy's."""
    if len(cpus) == 1:
        return cpus[0]
    own_library = gpu.device.library if gpu.device else ""
    for library in dict.fromkeys((own_library, "numpy", "")):
        candidates = [cpu for cpu in cpus if cpu.device is not None and cpu.device.library == library]
        if candidates:
            return _of_value(candidates, gpu.device.rest if gpu.device else "")
    return None


def _of_value(cpus: Sequence[ItemSpec], rest: str) -> ItemSpec | None:
    """Return the CPU variant of equal rest (`float32` of `numpy:float32`), the plain one, or the only one."""
    by_rest = {cpu.device.rest: cpu for cpu in reversed(cpus) if cpu.device is not None}
    for name in (rest, ""):
        if name in by_rest:
            return by_rest[name]
    return cpus[0] if len(cpus) == 1 else None


def _arguments(demand: Demand) -> str:
    """Return a demand as the arguments of a marker."""
    defaults = Demand()
    given = [
        f"{name}={value!r}" for name, value in asdict(demand).items() if value != getattr(defaults, name)
    ]
    return ", ".join(given) or "nothing"


def _same_device_errors(group: Iterable[tuple[pytest.Item, ItemSpec]]) -> list[str]:
    """Return what is wrong where two variants use the same device."""
    first_on: dict[DeviceSpec | None, pytest.Item] = {}
    for item, spec in group:
        first = first_on.setdefault(spec.device, item)
        is_same_test = first.stash[SPEC].nodeid == spec.nodeid  # with --keep-duplicates
        if not is_same_test and spec.device is not None and spec.source != "all":
            device = ":".join(filter(None, (spec.device.library, spec.device.selector)))
            shown = f"{spec.device.kind.upper()} {device}".strip()
            error = f"{item.nodeid}: uses the same device ({shown}) as its variant {first.nodeid}; use a "
            return [error + "different pair name for one of them, or remove its marker"]
    return []


def _group_names(item: pytest.Item) -> list[str]:
    """Return the names of the pair and of the size group that an item belongs to."""
    spec = item.stash.get(SPEC, None)
    if spec is None:
        return []
    names = [f"pair {spec.partner or spec.nodeid}"] if spec.pair is not None else []
    return [*names, f"size_group {spec.size_group.name}"] if spec.size_group else names
