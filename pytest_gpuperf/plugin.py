"""Fixtures, options and the hooks that every run sees; all else is imported when a test needs it."""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_gpuperf.collection.finder import Finder
    from pytest_gpuperf.devices.protocol import Device
    from pytest_gpuperf.session.gpuperf_fixture import GpuPerfFixture
    from pytest_gpuperf.session.run_hooks import RunHooks
    from pytest_gpuperf.session.session import GpuPerfSession

__all__ = ["cpu", "device", "gpu", "gpuperf", "xp"]

_HOOKS = "gpuperf-hooks"
_COLLECTING = "gpuperf-collecting"
_IS_ASKED = pytest.StashKey[bool]()  # whether tests without a marker are
_FINDER = pytest.StashKey["Finder"]()
_TOO_LATE = (
    "marked with speedup while it ran, too late to be measured: mark it where it is defined, or in the hook "
    "pytest_collection_modifyitems"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our options."""
    from pytest_gpuperf import options

    options.add(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the hook for other plugins' devices."""
    from pytest_gpuperf import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and check what the user chose before the first test runs."""
    from pytest_gpuperf import options

    for line in options.MARKERS:
        config.addinivalue_line("markers", line)
    config.stash[_IS_ASKED] = options.takes_all(config) or bool(options.patterns(config))
    if options.chosen(config):
        _session(config).check()
    if config.getoption("dist", "no") != "no":
        config.pluginmanager.register(_Listener(config))
    if config.getoption("dist", "no") != "no" or hasattr(config, "workerinput"):
        from pytest_gpuperf.integrations import xdist

        xdist.join(config, lambda: config.pluginmanager.has_plugin(_COLLECTING))


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize `device` where it is no slot; last, so that the suite's own values are known."""
    if "device" in metafunc.fixturenames:
        from pytest_gpuperf.collection import fixtures

        fixtures.parametrize(metafunc)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Find the speedup tests; a misused marker is a collection error of its module or class."""
    report = yield
    if isinstance(collector, pytest.Session):  # it picks from what modules and classes have collected
        return report
    items = [item for item in report.result or () if isinstance(item, pytest.Item)]
    if not items:
        return report
    config = collector.config
    marked, has_threshold = _marked(collector, items)
    if not (marked or has_threshold or config.getini("gpuperf_speedup")):
        return report
    finder = _finder(config)
    wrong = finder.collected(items, marked, has_threshold=has_threshold)
    if finder.found:
        _collect(config)
    if wrong:
        report.outcome = "failed"
        report.longrepr = "\n".join(wrong)
        report.result = []
    return report


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Find what other plugins marked meanwhile, pair siblings up, and put GPU after CPU siblings."""
    late = _marked_late(items)
    finder = config.stash.get(_FINDER, None)
    if finder is None and not late and not config.stash[_IS_ASKED]:
        return
    from pytest_gpuperf.collection.items import SHAPE
    from pytest_gpuperf.collection.siblings import in_order
    from pytest_gpuperf.session import baselines

    finder = _finder(config)
    again = [item for item in late if SHAPE in item.stash]
    wrong = [*finder.late(items, late), *finder.marked_again(again), *finder.complete(items)]
    wrong += [] if wrong else finder.missing(config.rootpath, baselines.narrowed(config))
    if wrong:
        raise baselines.usage_error(config, "\n".join(wrong))
    if finder.found and not config.pluginmanager.has_plugin(_COLLECTING):  # which orders them, else
        _collect(config)
        items[:] = in_order(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail what was asked of a test while it ran, too late to be measured: it is no pass."""
    yield
    if item.get_closest_marker("speedup") is None:
        return
    shape = _finder(item.config).passed_by(item)
    if shape is not None:
        from pytest_gpuperf.model.record import Verdict

        _session(item.config).without_measurement(item, shape, Verdict(status="error", reason=_TOO_LATE))
        if not shape.demand.bare:
            pytest.fail(_TOO_LATE, pytrace=False)


@pytest.fixture(scope="session")
def cpu(request: pytest.FixtureRequest) -> "Device":
    """The CPU, as a Device: `kind`, `backend`, `name`, `xp`, `asarray`, `asnumpy`, `synchronize`."""
    return _session(request.config).machine.cpu()


@pytest.fixture(scope="session")
def gpu(request: pytest.FixtureRequest) -> "Device":
    """The GPU, as a Device; skips with the reason where there is none (--gpuperf-require-gpu: fails)."""
    return _session(request.config).gpu()


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> "Device":
    """In a speedup test one device after the other; in any other test a parameter: [cpu] and [gpu]."""
    kind = getattr(request, "param", None)
    if kind is None:
        slot: Any = _Slot()
        return slot  # type: ignore[no-any-return]  # it stands in until the test's own call
    session = _session(request.config)
    return session.machine.cpu() if kind == "cpu" else session.gpu()


@pytest.fixture(scope="session")
def xp(device: "Device") -> Any:
    """The array namespace of `device`: NumPy on the CPU, the GPU library's on the GPU."""
    return device.xp


@pytest.fixture
def gpuperf(request: pytest.FixtureRequest) -> "GpuPerfFixture":
    """Both devices inside one test: `gpuperf.both(body)` returns both results; a speedup test is timed."""
    from pytest_gpuperf.session.gpuperf_fixture import GpuPerfFixture

    return GpuPerfFixture(_session(request.config), request.node)


class _Listener:
    """Waits, in xdist's controller, for the first record of a worker: only then is a session needed."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Make the session with the first record, and give it this one; it hears of the others itself."""
        if hasattr(report, "gpuperf") and not self._config.pluginmanager.has_plugin(_HOOKS):
            _hooks(self._config).closing.pytest_runtest_logreport(report)

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """End the run for a mistake in what was asked for: a worker has found it, and xdist does not tell."""
        from pytest_gpuperf.session.baselines import WRONG

        wrong = getattr(node, "workeroutput", {}).get(WRONG)
        if wrong is not None:
            pytest.exit(wrong, returncode=pytest.ExitCode.USAGE_ERROR)


class _Slot:
    """Stands where a speedup test's device will be; anything else that uses it is told so."""

    @property
    def xp(self) -> "_Slot":
        return self

    def __getattr__(self, name: str) -> Any:
        raise pytest.UsageError(
            f"device has no {name!r} here: a test or fixture that asks for it by getfixturevalue gets "
            "none; take device or xp as an argument instead"
        )


def _session(config: pytest.Config) -> "GpuPerfSession":
    """Return the run's session, made when a test or an option first needs it."""
    return _hooks(config).session


def _hooks(config: pytest.Config) -> "RunHooks":
    """Return the hooks of a run that measures, registered with its session when the first test needs them."""
    hooks: Any = config.pluginmanager.get_plugin(_HOOKS)
    if hooks is None:
        from pytest_gpuperf import gate_options, options
        from pytest_gpuperf.session import baselines
        from pytest_gpuperf.session.run_hooks import RunHooks
        from pytest_gpuperf.session.session import GpuPerfSession

        gate = gate_options.gate(config)
        report, outputs = options.json_path(config), gate_options.outputs(config)
        gate_options.check_apart(gate, report, outputs)
        session = GpuPerfSession(
            config, options.plan(config), report, outputs, gate, baselines.baselines(gate)
        )
        hooks = RunHooks(config, session)
        config.pluginmanager.register(hooks, _HOOKS)
        config.pluginmanager.register(hooks.closing)
        config.pluginmanager.register(session.timers)
    return hooks  # type: ignore[no-any-return]  # pluggy's registry is untyped


def _collect(config: pytest.Config) -> None:
    """Follow pytest while it collects, from the first speedup test on."""
    if not config.pluginmanager.has_plugin(_COLLECTING):
        from pytest_gpuperf.collection.hooks import CollectionHooks

        following = CollectionHooks(
            lambda: _finder(config).found,
            lambda ran, not_run: _hooks(config).closing.begin(
                ran, not_run, _finder(config).selections, _finder(config).found
            ),
        )
        config.pluginmanager.register(following, _COLLECTING)


def _finder(config: pytest.Config) -> "Finder":
    """Return what finds this run's speedup tests, made when the first thing asks for it."""
    if _FINDER not in config.stash:
        from pytest_gpuperf.session import baselines

        config.stash[_FINDER] = baselines.finder(config)
    return config.stash[_FINDER]


def _marked(collector: pytest.Collector, items: list[pytest.Item]) -> tuple[list[pytest.Item], bool]:
    """Return the items with a speedup marker, and whether a threshold is asked of any."""
    above = collector.get_closest_marker("speedup") is not None
    has_threshold = collector.get_closest_marker("offload_threshold") is not None
    marked = []
    for item in items:
        is_marked = above
        for mark in item.own_markers:
            is_marked = is_marked or mark.name == "speedup"
            has_threshold = has_threshold or mark.name == "offload_threshold"
        if is_marked:
            marked.append(item)
    return marked, has_threshold


def _marked_late(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the items that `add_marker` has marked, or what they stand in, since they were collected."""
    above: dict[pytest.Collector | None, bool] = {}
    late = []
    for item in items:
        if (parent := item.parent) not in above:
            above[parent] = parent is not None and parent.get_closest_marker("speedup") is not None
        own = 0
        for mark in item.own_markers:
            own += mark.name == "speedup"
        if own or above[parent]:
            late.append((item, own + above[parent] > 1))
    if not late:
        return []
    from pytest_gpuperf.collection.items import SHAPE

    return [item for item, is_marked_twice in late if is_marked_twice or SHAPE not in item.stash]
