"""From the collected items to the speedup tests: marked, matched by a pattern, or all that have variants."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_gpuperf import options
from pytest_gpuperf.collection import scaling, variants
from pytest_gpuperf.collection.item_reader import ItemReader
from pytest_gpuperf.collection.items import SPEC, ItemSpec, has_marked_parameters, item_spec, marker_error
from pytest_gpuperf.collection.patterns import Patterns, select_all
from pytest_gpuperf.collection.size_groups import build_size_groups
from pytest_gpuperf.devices.device_parameter import DeviceParser, DeviceSpec
from pytest_gpuperf.model.demand import Selection
from pytest_gpuperf.model.errors import GpuPerfError

_DIFFERENT = (
    "has a speedup marker, and a plugin or conftest added a second one with different arguments; keep one"
)


class Finder:
    """The speedup tests of a run: `found` as pytest collects module after module, then among late markers.

    Methods return what is wrong, one sentence for each item. With `require_gpu`, variants that are on the CPU
    for want of a GPU are wrong, too.
    """

    def __init__(
        self,
        reader: ItemReader,
        patterns: Patterns,
        *,
        times_all: bool,
        require_gpu: bool,
        has_foreign_scaling: bool,
    ) -> None:
        self.found: list[pytest.Item] = []
        self._reader = reader
        self._patterns = patterns
        self._times_all = times_all
        self._count_of_all = 0
        self._require_gpu = require_gpu
        self._has_foreign_scaling = has_foreign_scaling
        self._lacks_gpu = False  # an unmarked test has variants that are on the CPU only without a GPU

    def collect(
        self, items: Sequence[pytest.Item], marked: Iterable[pytest.Item], *, has_threshold: bool
    ) -> list[str]:
        """Add the speedup tests of one module or class."""
        found, errors = self._reader.read(marked)
        selected = self._patterns.select(items, self._reader.parser)
        found += selected
        if selected or any(has_marked_parameters(item) for item in found):
            found += self._reader.unmarked_variants(items, found)
        self.found += found
        errors += variants.pair_items(found, across_functions=False)
        return errors + build_size_groups(items) if has_threshold else errors

    def collect_scaling(self, items: Iterable[pytest.Item]) -> list[str]:
        """Add the scaling tests of one module or class."""
        found, errors = scaling.read(items, has_foreign_marker=self._has_foreign_scaling)
        self.found += found
        return errors

    def collect_late(self, items: Iterable[pytest.Item], marked: Iterable[pytest.Item]) -> list[str]:
        """Add items that a plugin or a conftest has marked after collection, and their variants."""
        errors_of_scaling = self.collect_scaling(marked)
        marked = [item for item in marked if item.get_closest_marker("speedup") is not None]
        new = [item for item in marked if SPEC not in item.stash]
        marked_twice = [item for item in marked if SPEC in item.stash]
        found, errors = self._reader.read(new)
        if found:
            found += self._reader.unmarked_variants(items, found)
        self.found += found
        errors += variants.pair_items(found, across_functions=False)
        errors += build_size_groups(dict.fromkeys([*new, *found]))
        return errors_of_scaling + errors + self._conflicts(marked_twice)

    def marked_during_run(self, item: pytest.Item) -> ItemSpec | None:
        """Return the spec of a test that was marked while it ran: it cannot be measured any more."""
        if not isinstance(item, pytest.Function):
            return None
        spec = item.stash.get(SPEC, None)
        if spec is not None:
            return spec if spec.source == "marker" and marker_error(item) is not None else None
        _, errors = self._reader.read([item])
        if errors:
            pytest.fail(errors[0], pytrace=False)
        spec = item.stash.get(SPEC, None)
        if spec is not None:
            spec = spec._replace(slots=frozenset(), device=None, calls_both=False, pair=None)
            item.stash[SPEC] = spec
        return spec

    def complete(self, items: Sequence[pytest.Item]) -> list[str]:
        """Pair variants of several modules and classes, and select unmarked tests with --gpuperf-all."""
        errors = variants.pair_items(self.found, across_functions=True)
        if self._times_all:
            selected = select_all(items, self._reader.parser)
            self.found += selected
            variants.pair_items(selected, across_functions=False)
            dropped = self._drop_unpaired(selected)
            self._count_of_all = len(selected) - len(dropped)
            self._lacks_gpu = bool(dropped) and not self._require_gpu
        by_pattern = [item for item in self.found if item.stash[SPEC].source == "pattern"]
        specs = {item: item.stash[SPEC] for item in by_pattern}
        may_use_gpu = {spec.pair for spec in specs.values() if spec.device and spec.device.may_be_on_gpu}
        for item in self._drop_unpaired(by_pattern):
            self._patterns.discard(item, may_use_gpu=specs[item].pair in may_use_gpu)
        return errors

    def unmatched_requests(self, root: Path, arguments: Sequence[str]) -> list[str]:
        """Return an error for each pattern, and for --gpuperf-all, that selected no test."""
        errors = [
            f"gpuperf_speedup: no test that can be timed matches {text!r}; node ids are relative to {root}, "
            "and a test needs CPU and GPU variants, or the fixture device or xp"
            for text in self._patterns.unmatched(root, arguments)
        ]
        if self._times_all and not self.has_selections:
            names = ", ".join(self._reader.parser.names)
            errors.append(
                "--gpuperf-all: no test has CPU and GPU variants; a variant is recognized by the parameters "
                f"{names} (gpuperf_device_params)"
            )
        return errors

    @property
    def has_selections(self) -> bool:
        """Whether the run has a test to measure, or one that --gpuperf-all would measure on a GPU."""
        return bool(self.found) or self._lacks_gpu

    @property
    def selections(self) -> tuple[Selection, ...]:
        """How many unmarked tests each pattern and --gpuperf-all selected."""
        of_all = [Selection(pattern=None, tests=self._count_of_all)] if self._times_all else []
        return (*self._patterns.selections, *of_all)

    def _conflicts(self, items: Iterable[pytest.Item]) -> list[str]:
        """Return an error for each item with a spec that got a second, different marker."""
        errors = []
        for item in items:
            spec = item.stash[SPEC]
            if spec.source != "marker" or spec.kind == "cpu" or not isinstance(item, pytest.Function):
                continue  # a CPU variant has the requirements of its GPU variant
            message = marker_error(item)
            if message is not None:
                errors.append(message)
            elif item_spec(item, self._reader.parser).demand != spec.demand:
                errors.append(f"{item.nodeid}: {_DIFFERENT}")
        return errors

    def _drop_unpaired(self, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """Take back the specs of selected, not marked, items that have no variant; return them."""
        partners = {item.stash[SPEC].partner for item in self.found}
        unpaired = [
            item
            for item in items
            if (spec := item.stash[SPEC]).device is not None
            and spec.partner is None
            and spec.nodeid not in partners
        ]
        for item in unpaired:
            del item.stash[SPEC]
            # Patterns.select added a marker, for plugins that look at it.
            item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "speedup"]
        self.found[:] = [item for item in self.found if SPEC in item.stash]
        return unpaired


def create_finder(config: pytest.Config) -> Finder:
    """Return what finds a run's speedup tests; raise UsageError for an option that cannot be satisfied."""
    try:
        parser = DeviceParser(
            options.device_params(config), _recognizers(config), options.device_values(config)
        )
    except ValueError as error:
        raise options.usage_error(config, f"gpuperf_device_values: {error}") from error
    try:
        patterns = Patterns(options.patterns(config))
    except ValueError as error:
        raise options.usage_error(config, f"gpuperf_speedup: {error}") from error
    require_gpu = options.run_options(config).require_gpu
    reader = ItemReader(
        parser,
        default_device=_default_device(config, parser),
        has_foreign_marker=options.has_foreign_marker(config),
        require_gpu=require_gpu,
    )
    return Finder(
        reader,
        patterns,
        times_all=options.times_all(config),
        require_gpu=require_gpu,
        has_foreign_scaling=options.has_foreign_marker(config, scaling.MARKER),
    )


def registered_backends(config: pytest.Config) -> list[Any]:
    """Return the backends that other plugins offer."""
    return [backend for plugin in config.hook.pytest_gpuperf_devices() for backend in plugin]


def _recognizers(config: pytest.Config) -> list[Any]:
    """Return the backends that know values of a suite: the stand-in of --gpuperf-gpu first, then others."""
    found = [backend for backend in registered_backends(config) if hasattr(backend, "recognizes")]
    choice = options.run_options(config).gpu
    if ":" not in choice:
        return found  # without the devices' modules, which import NumPy
    from pytest_gpuperf.devices.stand_in import chosen_stand_in

    try:
        return [*filter(None, [chosen_stand_in(choice)]), *found]
    except GpuPerfError as error:
        raise options.usage_error(config, f"--gpuperf-gpu: {error}") from error


def _default_device(config: pytest.Config, parser: DeviceParser) -> DeviceSpec | None:
    """Return the device that --gpuperf-default-device names."""
    name = options.run_options(config).default_device
    if name is None:
        return None
    device = parser.parse_text(name).spec
    if device is None:
        raise options.usage_error(
            config,
            f"--gpuperf-default-device: {name!r} is no device; expected e.g. numpy, cupy, torch:cuda or cpu",
        )
    return device
