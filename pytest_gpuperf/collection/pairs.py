"""CPU and GPU variants: which items are compared with each other."""

from collections.abc import Hashable, Iterable, Sequence
from itertools import islice

import pytest
from msgspec.structs import asdict

from pytest_gpuperf.collection.items import SPEC, ItemSpec, PairKey, differing, refuse
from pytest_gpuperf.devices.device_parameter import DeviceSpec
from pytest_gpuperf.model.demand import KINDS, Demand

_MOST_ASKED = 20  # variants on the other device: to find the nearest of thousands would take long
_Group = list[tuple[pytest.Item, ItemSpec]]


def pair_items(items: Iterable[pytest.Item]) -> None:
    """Give each GPU variant the CPU variant that it is compared with, or the problem that it has.

    The items must be all that were collected, so that variants which will not run are known too.
    """
    groups: dict[PairKey, _Group] = {}
    named: dict[Hashable, list[pytest.Item]] = {}
    for item in items:
        spec = item.stash[SPEC]
        if spec.pair is not None and spec.pair.kind == "name":
            named.setdefault(spec.pair.name, []).append(item)
        elif spec.pair is not None:
            groups.setdefault(spec.pair, []).append((item, spec))
    for of_one_name in named.values():
        for item, spec in _without_what_goes_with_the_device(of_one_name):
            if spec.pair is not None:
                groups.setdefault(spec.pair, []).append((item, spec))
    alone: dict[Hashable, _Group] = {}  # by function or name: the groups that are on one device only
    for key, whole in groups.items():
        for group in [whole] if key.kind == "function" else _by_module(whole):
            _pair_group(group)
        if key.kind != "inherited" and len({spec.kind for _, spec in whole}) == 1:
            alone.setdefault((key.kind, key.name), []).extend(whole)
    for group in alone.values():
        _tell_what_differs(group)


def _without_what_goes_with_the_device(items: Sequence[pytest.Item]) -> _Group:
    """Leave parameters that have other values on the CPU than on the GPU out of the keys of one `pair` name.

    Unless the rest does not tell the tests of a device apart: then these are cases, which have no variant.
    """
    specs = [item.stash[SPEC] for item in items]
    on_cpu, on_gpu = (
        {each for spec in specs if spec.kind == kind for each in _named_parameters(spec)} for kind in KINDS
    )
    shared = {name for name, _ in on_cpu & on_gpu}
    left = [frozenset(each for each in _named_parameters(spec) if each[0] in shared) for spec in specs]
    modules = [item.getparent(pytest.Module) for item in items]
    apart = {*zip(left, (spec.device for spec in specs), modules, strict=True)}
    if len(apart) == len(items):
        for item, spec, parameters in zip(items, specs, left, strict=True):
            pair = spec.pair and spec.pair._replace(parameters=parameters)
            item.stash[SPEC] = spec._replace(pair=pair)
    return [(item, item.stash[SPEC]) for item in items]


def _named_parameters(spec: ItemSpec) -> frozenset[tuple[str, Hashable]]:
    found = spec.pair.parameters if spec.pair else ()
    return found if isinstance(found, frozenset) else frozenset()


def _tell_what_differs(group: _Group) -> None:
    """Tell items of a function, or name, without partners in which parameters the nearest variant differs."""
    for item, spec in group:
        others = islice((other for other, its in group if its.kind != spec.kind), _MOST_ASKED)
        differs = (differing(item, other, spec.device_parameters) for other in others)
        nearest = min(differs, key=len, default=())
        item.stash[SPEC] = item.stash[SPEC]._replace(differs=nearest)


def _by_module(group: _Group) -> Iterable[_Group]:
    """Return the items of each module, if each has both devices: a name may be used in several modules."""
    modules: dict[pytest.Module | None, _Group] = {}
    for item, spec in group:
        modules.setdefault(item.getparent(pytest.Module), []).append((item, spec))
    kinds = [{spec.kind for _, spec in items} for items in modules.values()]
    return modules.values() if all({"cpu", "gpu"} <= found for found in kinds) else [group]


def _pair_group(group: _Group) -> None:
    """Pair the items of one group, of which several may work on CPU or GPU."""
    if any(spec.kind == "cpu" and spec.device and spec.device.is_default for _, spec in group):
        group = [(item, spec._replace(awaits_gpu=True)) for item, spec in group]
        for item, spec in group:
            item.stash[SPEC] = spec
    cpus, gpus = _by_kind(group)
    if len(cpus) > 1 or len(gpus) > 1:  # else each is on a device of its own
        cpus, gpus = _by_kind(_refuse_same_devices(_without_stood_in_for(group)))
    if not cpus or not gpus:
        return
    for item, spec in gpus:
        partner = _partner(spec, [cpu for _, cpu in cpus])
        if partner is None:
            candidates = ", ".join(cpu.nodeid for cpu, _ in cpus)
            refuse(
                item,
                f"which CPU test it is compared with is ambiguous ({candidates}): none of them uses the same "
                "library, and none uses NumPy",
            )
            continue
        item.stash[SPEC] = spec._replace(partner=partner.nodeid)
        if partner.demand != spec.demand and not partner.demand.is_default:
            refuse(
                item,
                f"requires {_arguments(spec.demand)}, but its CPU variant {partner.nodeid} "
                f"{_arguments(partner.demand)}; the marker arguments of the two must agree, or be given on "
                "one of them only",
            )
    for item, spec in cpus:
        if spec.demand.is_default:
            item.stash[SPEC] = spec._replace(demand=gpus[0][1].demand)


def _by_kind(group: _Group) -> tuple[_Group, _Group]:
    """Return the items on a CPU, and those on a GPU."""
    cpus, gpus = ([(item, spec) for item, spec in group if spec.kind == kind] for kind in KINDS)
    return cpus, gpus


def _partner(gpu: ItemSpec, cpus: Sequence[ItemSpec]) -> ItemSpec | None:
    """Return the only CPU variant; of several, the one of the GPU's own library, else NumPy's."""
    if len(cpus) == 1:
        return cpus[0]
    own_library = gpu.device.library if gpu.device else ""
    for library in dict.fromkeys((own_library, "numpy", "")):
        for cpu in cpus:
            if cpu.device is not None and cpu.device.library == library:
                return cpu
    return None


def _arguments(demand: Demand) -> str:
    """Return a demand as the arguments of a marker."""
    defaults = Demand()
    given = [
        f"{name}={value!r}" for name, value in asdict(demand).items() if value != getattr(defaults, name)
    ]
    return ", ".join(given) or "nothing"


def _without_stood_in_for(group: _Group) -> _Group:
    """Return the group without those whose GPU has a stand-in that is their variant's already: they skip.

    The suite is right: `jax:gpu` has a device of its own where `jax` is on the CPU, as it is here. Of the two
    pytest can run the latter.
    """
    of_stand_in: dict[DeviceSpec | None, str] = {}
    for _, spec in group:
        if spec.device and spec.device.is_stand_in:
            of_stand_in.setdefault(spec.device, spec.nodeid)
    others = []
    for item, spec in group:
        first = of_stand_in.get(spec.device)
        if first is None or spec.source == "all" or (spec.device and spec.device.is_stand_in):
            others.append((item, spec))
            continue
        library = spec.device.library if spec.device else ""
        taken = f"needs a GPU of {library}: {first}, a variant of it, has the stand-in for one"
        item.stash[SPEC] = spec._replace(stand_in_taken=taken)
    return others


def _refuse_same_devices(group: Iterable[tuple[pytest.Item, ItemSpec]]) -> _Group:
    """Refuse each variant that uses the same device as one before it; return the others."""
    first_on: dict[DeviceSpec | None, str] = {}
    accepted = []
    for item, spec in group:
        first = first_on.setdefault(spec.device, spec.nodeid)
        is_same_test = first == spec.nodeid  # with --keep-duplicates
        if is_same_test or spec.device is None or spec.source == "all":
            accepted.append((item, spec))
            continue
        device = ":".join(filter(None, (spec.device.library, spec.device.selector)))
        shown = f"{spec.device.kind.upper()} {device}".strip()
        refuse(
            item,
            f"uses the same device ({shown}) as its variant {first}; use a different pair name for one of "
            "them, or remove its marker",
        )
    return accepted
