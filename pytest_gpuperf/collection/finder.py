"""From collected items to speedup tests: the marked ones, and with --gpuperf-all all that have variants."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import pytest

from pytest_gpuperf import option_table, options
from pytest_gpuperf.collection import fixtures, markers, no_device_fixture, pairs
from pytest_gpuperf.collection.items import (
    SPEC,
    UNKNOWN,
    WHY_NO_DEVICE,
    ItemSpec,
    Problems,
    SpecReader,
    refuse,
    test_id,
    unmarked_spec,
)
from pytest_gpuperf.devices.device_parameter import DeviceParser, DeviceSpec, UnknownDevice
from pytest_gpuperf.model import ask
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.nodeid import function_of
from pytest_gpuperf.model.plain_text import quote
from pytest_gpuperf.model.units import first_few

_BACKENDS = pytest.StashKey[list[Any] | pytest.UsageError]()
_MOST = 1000  # backends of one plugin, whose iterator may be endless
_A_BACKEND = "it must be of a subclass of pytest_gpuperf.Backend, with a name (a str without a colon)"
_USED_ONCE = ("benchmark", "subtests")  # fixtures that cannot be used again in a further call


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The speedup tests among all collected `items`, those that will not run and wrong ones included.

    `unmarked`: how many of them --gpuperf-all selected, None without it. With `lacks_gpu` it would select
    others on a machine with a GPU. `hints`: what a test's parameters seem to get wrong.
    """

    items: Sequence[pytest.Item]
    hints: Sequence[str] = ()
    unmarked: int | None
    lacks_gpu: bool

    @property
    def is_empty(self) -> bool:
        """Whether no test is measured here, nor would be where there is a GPU."""
        return not self.items and not self.lacks_gpu


Marked = Sequence[tuple[pytest.Item, Sequence[pytest.Mark]]]
"""The items that have markers of ours, each with these: its own, and those of its classes and module."""


def find(config: pytest.Config, items: Sequence[pytest.Item], marked: Marked) -> Found:
    """Read the markers of the `marked` items, once: all plugins and conftests have added theirs.

    `items` must be all that were collected, so that variants and sizes which will not run are known, too.
    A wrong marker is a problem of its own test; UsageError is raised for options that cannot be satisfied.
    """
    run_options = options.run_options(config)
    parser = _device_parser(config, run_options.gpu)
    found = _Reader(config, parser, run_options).read(items, _having("speedup", marked))
    if swept := _having("scaling", marked):
        from pytest_gpuperf.collection import sweeps  # which other suites need not import

        has_foreign_scaling = options.has_foreign_marker(config, sweeps.SCALING)
        found += sweeps.read_scaling(swept, has_foreign_marker=has_foreign_scaling)
    pairs.pair_items(found)
    if sized := _having("offload_threshold", marked):
        from pytest_gpuperf.collection import sweeps

        found += sweeps.read_size_groups(sized)
    # A wrong size group is a problem of an item that was found before.
    found = list(dict.fromkeys(found))
    hints = [*no_device_fixture.beside_ours(found, parser)]
    if not option_table.times_all(config):
        return Found(items=found, hints=hints, unmarked=None, lacks_gpu=False)
    selected, others = _select_unmarked(items, parser)
    # Torch, JAX and Keras are on the CPU here, and would be on a GPU where there is one.
    lacks_gpu = not run_options.require_gpu and any(device.may_be_on_gpu for device in others)
    every = Found(items=[*found, *selected], hints=hints, unmarked=len(selected), lacks_gpu=lacks_gpu)
    if every.is_empty:
        raise options.usage_error(
            config,
            "--gpuperf-all: no test has CPU and GPU variants; a variant is recognized by the parameters "
            f"{', '.join(parser.names)} (gpuperf_device_params); a test without variants needs "
            "pytest.mark.speedup and the fixture device",
        )
    return every


def _having(name: str, marked: Marked) -> list[pytest.Function]:
    """Return the functions with a marker of this name; a marked module may hold doctests, too."""
    found = dict.fromkeys(item for item, marks in marked for mark in marks if mark.name == name)
    return [item for item in found if isinstance(item, pytest.Function)]


class _Reader:
    """Gives marked items, and their unmarked variants, their specs."""

    def __init__(self, config: pytest.Config, parser: DeviceParser, run_options: RunOptions) -> None:
        self._parser = parser
        self._specs = SpecReader(parser)
        self._default_device = _default_device(config, parser, run_options.default_device)
        # The suite has a marker called speedup of its own: then one that cannot be ours is ignored.
        self._has_foreign_marker = options.has_foreign_marker(config)
        self._require_gpu = run_options.require_gpu
        self._library = run_options.gpu.partition(":")[0]

    def read(self, items: Iterable[pytest.Item], marked: Iterable[pytest.Function]) -> list[pytest.Item]:
        """Give marked items their specs, or the problem that they have; return them and their variants.

        Items with a value that no backend knows are left alone, if others of their function have a known one;
        where a GPU is required, those without limits only.
        """
        found: list[pytest.Item] = []
        unknown: dict[str, dict[pytest.Function, UnknownDevice]] = {}
        for item in marked:
            try:
                with Problems():
                    spec = self._specs.spec(item)
            except UnknownDevice as error:
                if not self._has_foreign_marker:
                    unknown.setdefault(function_of(test_id(item)), {})[item] = error
            except ValueError as error:
                if not self._has_foreign_marker:
                    if (spec_without := unmarked_spec(item, self._parser)) is not None:
                        item.stash[SPEC] = spec_without  # a variant of it still has a partner
                    refuse(item, str(error))
                    found.append(item)
            else:
                if self._has_foreign_marker and spec.demand.is_default and not fixtures.uses_ours(item):
                    continue
                if not spec.has_device:
                    spec = spec._replace(device=self._default_device)
                    item.stash[WHY_NO_DEVICE] = no_device_fixture.why(item, self._parser, self._library)
                item.stash[SPEC] = spec
                found.append(item)
        specs = [spec for item in found if (spec := item.stash[SPEC]).problem is None]
        known = {function_of(spec.nodeid) for spec in specs}
        for function, errors in unknown.items():
            found += self._refuse_or_leave_alone(errors, is_known=function in known)
        return found + self._unmarked_variants(items, specs)

    def _refuse_or_leave_alone(
        self, errors: dict[pytest.Function, UnknownDevice], *, is_known: bool
    ) -> list[pytest.Item]:
        """Note the unknown value of each item of a function; refuse those that must be measured."""
        refused: list[pytest.Item] = []
        several = no_device_fixture.of_several(error.given for error in errors.values())
        for item, error in errors.items():
            if not is_known:
                refuse(item, no_device_fixture.why_unknown(error, several))
            elif self._require_gpu and markers.read(item)[0].limits:
                refuse(item, f"{error}; without --gpuperf-require-gpu these tests are left alone")
            else:
                item.stash[UNKNOWN] = error.value
                continue
            refused.append(item)
        return refused

    def _unmarked_variants(
        self, items: Iterable[pytest.Item], marked: Sequence[ItemSpec]
    ) -> list[pytest.Item]:
        """Give specs to the unmarked variants of marked items, and return them.

        `pytest.param(cupy, marks=pytest.mark.speedup)` marks the GPU item only; its CPU variant is `numpy`.
        """
        functions = {function_of(spec.nodeid) for spec in marked if spec.pair is not None}
        others = [
            item
            for item in items
            if SPEC not in item.stash
            and function_of(test_id(item)) in functions
            and UNKNOWN not in item.stash
        ]
        if not others:
            return []
        marked_by_pair = {spec.pair: spec for spec in marked if spec.pair is not None}
        pairs_on_gpu = {spec.pair for spec in marked if spec.kind == "gpu"}
        found: list[pytest.Item] = []
        for item in others:
            spec = unmarked_spec(item, self._parser)
            if spec is None or spec.pair is None or spec.pair not in marked_by_pair:
                continue
            if spec.kind == "gpu" and spec.pair in pairs_on_gpu:
                continue
            demand = spec.demand if spec.kind == "cpu" else marked_by_pair[spec.pair].demand
            item.stash[SPEC] = spec._replace(demand=demand)
            found.append(item)
        return found


def _select_unmarked(
    items: Iterable[pytest.Item], parser: DeviceParser
) -> tuple[list[pytest.Item], list[DeviceSpec]]:
    """Give specs to the items without one that have a variant on the other device; return them.

    With them the devices of the others, which have none here.
    """
    candidates = []
    for item in items:
        if SPEC in item.stash or any(name in ask.attribute(item, "fixturenames", ()) for name in _USED_ONCE):
            continue
        spec = unmarked_spec(item, parser)
        if spec is not None and spec.device is not None and spec.device_parameters:
            item.stash[SPEC] = spec._replace(source="all")
            candidates.append(item)
    pairs.pair_items(candidates)
    partners = {item.stash[SPEC].partner for item in candidates}
    selected, others = [], []
    for item in candidates:
        spec = item.stash[SPEC]
        if spec.partner is not None or spec.nodeid in partners:
            selected.append(item)
        else:
            del item.stash[SPEC]
            others += [spec.device] if spec.device else []
    return selected, others


def registered_backends(config: pytest.Config) -> list[Any]:
    """Return the backends that other plugins offer, which are asked once in a run.

    Raises UsageError, each time, where a plugin raises or returns anything else.
    """
    if _BACKENDS not in config.stash:
        try:
            config.stash[_BACKENDS] = _offered_backends(config)
        except GpuPerfError as error:
            hooks = config.hook.pytest_gpuperf_devices.get_hookimpls()
            plugins = first_few([hook.plugin_name for hook in hooks])
            said = f"pytest_gpuperf_devices ({plugins}): {error}"
            config.stash[_BACKENDS] = options.usage_error(config, said)
    found = config.stash[_BACKENDS]
    if isinstance(found, pytest.UsageError):
        raise pytest.UsageError(*found.args)
    return found


def _offered_backends(config: pytest.Config) -> list[Any]:
    """Return what the hook does; raise GpuPerfError for what is no backend."""
    if not config.hook.pytest_gpuperf_devices.get_hookimpls():
        return []  # without importing the report's modules for that
    from pytest_gpuperf.devices.protocol import Backend
    from pytest_gpuperf.report.exports import errors_named

    with errors_named("the hook"):
        returned = config.hook.pytest_gpuperf_devices()
        found = chain.from_iterable(
            islice(each, _MOST) if isinstance(each, Iterable) else [each] for each in returned
        )
        backends = list(found)
    for each in backends:
        name = ask.attribute(each, "name")
        is_named = type(name) is str and bool(name) and ":" not in name
        if not (is_named and ask.is_really(each, Backend)):
            raise GpuPerfError(f"{quote(each)} is no backend: {_A_BACKEND}")
    return backends


def _device_parser(config: pytest.Config, chosen: str) -> DeviceParser:
    try:
        return DeviceParser(
            options.device_params(config), _recognizers(config, chosen), options.device_values(config)
        )
    except ValueError as error:
        raise options.usage_error(config, f"gpuperf_device_values: {error}") from error


def _recognizers(config: pytest.Config, chosen: str) -> list[Any]:
    """Return the backends that know values of a suite: the stand-in of --gpuperf-gpu first, then others."""
    found = [backend for backend in registered_backends(config) if ask.has(backend, "recognizes")]
    if ":" not in chosen:
        return found  # without the devices' modules, which import NumPy
    from pytest_gpuperf.devices.stand_in import chosen_stand_in

    try:
        return [*filter(None, [chosen_stand_in(chosen)]), *found]
    except GpuPerfError as error:
        raise options.wrong(config, "--gpuperf-gpu", error) from error


def _default_device(config: pytest.Config, parser: DeviceParser, name: str | None) -> DeviceSpec | None:
    """Return the device that --gpuperf-default-device names."""
    if name is None:
        return None
    device = parser.parse_text(name)
    if device is None:
        problem = f"{name!r} is no device; expected e.g. numpy, cupy, torch:cuda or cpu"
        raise options.wrong(config, "--gpuperf-default-device", problem)
    return device
