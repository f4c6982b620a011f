"""Unmarked tests that --gpuperf-all selects: those that have a variant on the other device."""

from collections.abc import Iterable

import pytest

from pytest_gpuperf.collection.items import SPEC, unmarked_spec
from pytest_gpuperf.collection.variants import group_by_pair
from pytest_gpuperf.devices.device_parameter import DeviceParser

_USED_ONCE = ("benchmark", "subtests")  # fixtures that cannot be used again in a further call


def select(items: Iterable[pytest.Item], parser: DeviceParser) -> list[pytest.Item]:
    """Give specs to all items without one that have a variant on the other device, or may where a GPU is."""
    candidates = []
    for item in items:
        if SPEC in item.stash or any(name in getattr(item, "fixturenames", ()) for name in _USED_ONCE):
            continue
        spec = unmarked_spec(item, parser)
        if spec is not None and spec.device is not None and spec.device_parameters:
            item.stash[SPEC] = spec._replace(source="all")
            candidates.append(item)
    selected = []
    for key, group in group_by_pair(candidates).items():
        devices = [spec.device for _, spec in group if spec.device is not None]
        here = {device.kind for device in devices}
        elsewhere = {"gpu" if device.may_be_on_gpu else device.kind for device in devices}
        has_both = key.kind == "function" and {"cpu", "gpu"} in (here, elsewhere)
        for item, _ in group:
            if has_both:
                selected.append(item)
            else:
                del item.stash[SPEC]
    return selected


def drop_unpaired(candidates: Iterable[pytest.Item], marked: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Take back the specs of candidates without a variant here; return the others."""
    candidates = list(candidates)
    partners = {item.stash[SPEC].partner for item in (*marked, *candidates)}
    selected = []
    for item in candidates:
        spec = item.stash[SPEC]
        if spec.partner is None and spec.nodeid not in partners:
            del item.stash[SPEC]
        else:
            selected.append(item)
    return selected
