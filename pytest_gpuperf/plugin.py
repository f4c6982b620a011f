"""Fixtures, options and the hooks that every run sees; all else is imported when a test needs it."""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_gpuperf.devices.protocol import Device
    from pytest_gpuperf.session import Session

__all__ = ["cpu", "device", "gpu", "xp"]

_HOOKS = "gpuperf-hooks"


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
    if options.chosen(config):
        _session(config).check()
    if config.getoption("dist", "no") != "no":
        config.pluginmanager.register(_Listener(config))


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize `device` where it is no slot; last, so that the suite's own values are known."""
    if "device" in metafunc.fixturenames:
        from pytest_gpuperf import items

        items.parametrize(metafunc)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Find the marked tests; a misused marker is a collection error of its module or class."""
    report = yield
    if isinstance(collector, pytest.Session):  # it picks from what modules and classes have collected
        return report
    marked_above: bool | None = None
    wrong: list[str] = []
    has_threshold = False
    for item in report.result or ():
        if not isinstance(item, pytest.Item):
            continue
        if marked_above is None:
            marked_above = collector.get_closest_marker("speedup") is not None
        if marked_above or (item.own_markers and any(mark.name == "speedup" for mark in item.own_markers)):
            wrong += _mark(item)
        if item.own_markers and not has_threshold:
            has_threshold = any(mark.name == "offload_threshold" for mark in item.own_markers)
    if has_threshold or (marked_above is not None and collector.get_closest_marker("offload_threshold")):
        from pytest_gpuperf import items

        wrong += items.families(item for item in report.result if isinstance(item, pytest.Item))
    if wrong:
        report.outcome = "failed"
        report.longrepr = "\n".join(wrong)
        report.result = []
    return report


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Find the tests that other plugins marked meanwhile, and put GPU siblings after their CPU siblings."""
    late = [item for item in items if _was_marked_late(item)]
    wrong = [message for item in late for message in _mark(item)]
    if late:
        from pytest_gpuperf.items import families

        wrong += families(late)
    if wrong:
        raise pytest.UsageError("\n".join(wrong))
    if config.pluginmanager.has_plugin(_HOOKS):
        from pytest_gpuperf.items import in_order

        items[:] = in_order(items)


@pytest.fixture(scope="session")
def cpu(request: pytest.FixtureRequest) -> "Device":
    """The CPU, as a Device: `kind`, `backend`, `name`, `xp`, `asarray`, `asnumpy`, `synchronize`."""
    return _session(request.config).devices.cpu()


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
    return session.devices.cpu() if kind == "cpu" else session.gpu()


@pytest.fixture(scope="session")
def xp(device: "Device") -> Any:
    """The array namespace of `device`: NumPy on the CPU, the GPU library's on the GPU."""
    return device.xp


class _Listener:
    """Waits, in xdist's controller, for the first record of a worker: only then is a session needed."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Make the session with the first record, and give it this one; it hears of the others itself."""
        if hasattr(report, "gpuperf") and not self._config.pluginmanager.has_plugin(_HOOKS):
            _session(self._config)
            hooks: Any = self._config.pluginmanager.get_plugin(_HOOKS)
            hooks.pytest_runtest_logreport(report)


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


def _session(config: pytest.Config) -> "Session":
    """Return the run's session, made with its hooks when a test or an option first needs it."""
    hooks: Any = config.pluginmanager.get_plugin(_HOOKS)
    if hooks is None:
        from pytest_gpuperf import options
        from pytest_gpuperf.hooks import Hooks
        from pytest_gpuperf.session import Session

        session = Session(config, options.plan(config), options.json_path(config))
        hooks = Hooks(config, session)
        config.pluginmanager.register(hooks, _HOOKS)
    return hooks.session  # type: ignore[no-any-return]  # pluggy's registry is untyped


def _mark(item: pytest.Item) -> list[str]:
    """Give a marked item its shape, or return what is wrong with its marker."""
    from pytest_gpuperf import items

    if not isinstance(item, pytest.Function):  # a doctest, say, in a module that is marked
        return []
    if (wrong := items.misuse(item)) is not None:
        return [wrong]
    _session(item.config)
    item.stash[items.SHAPE] = items.shape(item)
    return []


def _was_marked_late(item: pytest.Item) -> bool:
    """Say whether `add_marker` has marked an item, or what it stands in, since it was collected."""
    if not any(node.own_markers for node in (item, item.parent) if node is not None):
        return False
    if item.get_closest_marker("speedup") is None:
        return False
    from pytest_gpuperf.items import SHAPE

    return SHAPE not in item.stash
