"""The plugin that pytest loads: options, the marker, the fixtures, and the hooks that every run sees.

A suite without speedup tests pays for this module, `option_table` and `hookspecs` only. The other hooks
belong to objects that are registered when they are first needed:

object            registered                          hooks
----------------  ----------------------------------  --------------------------------------------------------
this module       at start                            addoption, load_initial_conftests (wrapper), addhooks,
                                                      configure, generate_tests (last),
                                                      make_collect_report (innermost wrapper),
                                                      collection_modifyitems (outermost wrapper),
                                                      runtest_call (wrapper)
CollectionHooks   where there is a speedup test       report_collectionfinish,
                                                      runtestloop (first: creates the session)
RunHooks          with the session (`_hooks`): a      runtest_protocol (outermost wrapper), runtest_setup,
                  speedup test is about to run, or    pyfunc_call (first), runtest_call (innermost wrapper:
                  an option has to be checked         within pytest's capturing of output),
                                                      runtest_makereport (wrapper)
CpuRun            with RunHooks                       runtest_protocol (first)
UnmeasuredHooks   with RunHooks; at start where       pyfunc_call (first), runtest_call (first),
                  nothing is measured                 report_collectionfinish
FinishHooks       with RunHooks                       runtest_logreport, testnodedown,
                                                      runtestloop (wrapper), sessionfinish (last)
TerminalHooks     with RunHooks                       xdist_node_collection_finished (last),
                                                      report_collectionfinish, report_teststatus (wrapper),
                                                      terminal_summary, unconfigure
ExpectedTests     with RunHooks                       collectreport, deselected
TimeoutPauser     with RunHooks                       timeout_set_timer, timeout_cancel_timer (both first)
OwnLaunch         when tests begin, where one has    runtest_protocol (first)
                  `ranks` and this is no rank
RankHooks         with RunHooks, where this process   runtest_makereport, runtest_teardown,
                  is a rank of several                sessionfinish (all first), keyboard_interrupt,
                                                      terminal_summary, unconfigure (last)
xdist._Worker     at start, in a worker               collection_finish (first)
xdist._Controller at start, with --dist               configure_node, runtest_logreport (first),
                                                      testnodedown (first)

Where two objects have the same hook: runtest_call fails here what a test marked itself while it ran, after
RunHooks has measured what was marked before; runtestloop creates the session before FinishHooks' wrapper
needs it; the controller's runtest_logreport creates the session for the first report of ours, and
FinishHooks gets the others; testnodedown ends the run for a worker's usage error before FinishHooks reads the
worker's data.

PYTEST_DONT_REWRITE: there is no assert here, which pytest would look for at each start without bytecode.
"""

# Annotations stay text: every start of pytest would have to evaluate them.
from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_gpuperf.devices.group import DeviceGroup
    from pytest_gpuperf.devices.protocol import Device
    from pytest_gpuperf.session.gpuperf_fixture import GpuPerfFixture
    from pytest_gpuperf.session.ranks.group import RankGroup
    from pytest_gpuperf.session.run_hooks import RunHooks
    from pytest_gpuperf.session.session import GpuPerfSession

_RUN_HOOKS = "gpuperf-hooks"
_PATH = tuple(sys.path)  # before pytest puts the suite's folders in front
_IS_OFF = pytest.StashKey[bool]()
_COLLECTED = pytest.StashKey[list[pytest.Item]]()  # all items, also those that a node id or --lf leaves out
_MARKERS = {
    "speedup": "time the test on CPU and GPU; fail when the speedup is below min or above max",
    "offload_threshold": "find the size from which the GPU is faster, in a speedup test that is parametrized "
    "over sizes; fail when it is outside the limits",
    "scaling": "time the test on each of these numbers of devices; fail when the parallel efficiency on the "
    "most is below efficiency",
}
_READ = pytest.StashKey[list[pytest.Mark]]()  # the markers of ours that were read
_TOO_LATE = (
    "the {} marker was added after the markers had been read, so nothing was done about it; add it where the "
    "test is defined or in pytest_collection_modifyitems"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add our options."""
    from pytest_gpuperf import option_table

    option_table.add_to(parser)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, None, None]:
    """Refuse a misspelt option of ours, once the suite's conftest files have added theirs."""
    is_checked = any(word.startswith(("--gpuperf", "@")) for word in args)
    if is_checked:
        from pytest_gpuperf import options

        options.typed_words(early_config)  # of an @FILE, before a conftest, or a test, changes the folder
    yield
    if is_checked:
        options.check_names(parser, args)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the hooks of other plugins: their devices and report formats, and the records for them."""
    from pytest_gpuperf import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and check the user's options before the first test runs."""
    from pytest_gpuperf import option_table

    _add_markers(config)
    # pytest has it for its own warning; a pytest without it leaves us with that warning.
    unknown_keys: Iterable[str] = getattr(config, "_get_unknown_ini_keys", tuple)()
    if unknown_keys:
        from pytest_gpuperf import options

        options.check_keys(unknown_keys)
    config.stash[_IS_OFF] = option_table.is_off(config)
    config.stash[_COLLECTED] = []
    if config.stash[_IS_OFF]:
        _register_unmeasured_hooks(config)
    if option_table.any_given(config):
        _session(config).check(config)
    if config.getoption("dist", "no") != "no" or hasattr(config, "workerinput"):
        from pytest_gpuperf.integrations import xdist

        def on_report(report: pytest.TestReport) -> None:
            # FinishHooks, once registered, gets all later reports from pytest, but not this one.
            if not config.pluginmanager.has_plugin(_RUN_HOOKS):
                _hooks(config).finish_hooks.pytest_runtest_logreport(report)

        xdist.register(config, on_report)


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize `device`, `devices` and `ranks`; last: the suite's own values are known."""
    if "devices" in metafunc.fixturenames or "ranks" in metafunc.fixturenames:
        from pytest_gpuperf.collection import sweeps

        sweeps.parametrize(metafunc)
    if "device" in metafunc.fixturenames:
        from pytest_gpuperf.collection import fixtures

        fixtures.parametrize(metafunc)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Remember the items of a module or class, before --lf leaves some out: their variants may run."""
    report = yield
    items = [item for item in report.result or () if isinstance(item, pytest.Item)]
    collector.config.stash[_COLLECTED] += items
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Read the markers, once: every plugin and conftest has added its own, and may have deselected items."""
    before = list(items)
    nodeids = {item: item.nodeid for item in [*config.stash[_COLLECTED], *before]}
    yield
    collected = list(dict.fromkeys([*nodeids, *items]))
    config.stash[_COLLECTED].clear()
    if config.stash[_IS_OFF]:
        return
    from pytest_gpuperf import option_table

    marked = _marked(collected)
    if not marked and not option_table.times_all(config):
        return
    from pytest_gpuperf.collection import finder
    from pytest_gpuperf.collection.hooks import CollectionHooks
    from pytest_gpuperf.collection.items import NODEID, SPEC

    for item, nodeid in nodeids.items():
        if item.nodeid != nodeid:  # pytest-xdist has appended a group
            item.stash[NODEID] = nodeid
    found = finder.find(config, collected, marked)
    for item, marks in marked:
        item.stash[_READ] = marks
    if found.is_empty:
        return
    if config.pluginmanager.has_plugin("run-parallel"):
        from pytest_gpuperf.integrations import run_parallel

        run_parallel.run_alone(found.items)
    from pytest_gpuperf.integrations import launchers

    launchers.check(config)
    rank = launchers.of_run(config)
    hints = [*found.hints, *launchers.hints(rank)]
    selected = set(items)
    deselected = [item for item in before if item not in selected]

    def begin(selected: Sequence[pytest.Item]) -> None:
        hooks = _hooks(config)
        hooks.finish_hooks.begin(found, selected, deselected)
        if hooks.session.devices.starts_ranks and any(item.stash[SPEC].is_in_ranks for item in found.items):
            from pytest_gpuperf.session.ranks.own_launch import OwnLaunch

            on_error = hooks.finish_hooks.terminal_hooks.errors.append
            name = config.pluginmanager.get_name(sys.modules[__name__]) or __name__
            config.pluginmanager.register(OwnLaunch(hooks.session, config, on_error, plugin=name, path=_PATH))

    measures = rank is None or rank.number == 0
    config.pluginmanager.register(CollectionHooks(found.items, hints, begin, measures=measures))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test with a marker that came too late to be read and requires something: it must not pass."""
    yield
    # Every test of every suite comes here: to look up names is faster than to walk through the markers.
    if not any(name in item.keywords for name in _MARKERS) or not isinstance(item, pytest.Function):
        return
    read = item.stash.get(_READ, [])
    late = [mark for mark in _marks(item) if mark not in read and (mark.args or mark.kwargs)]
    if not late or item.config.stash[_IS_OFF]:
        return
    from pytest_gpuperf import options

    for mark in late:
        if not options.has_foreign_marker(item.config, mark.name):
            pytest.fail(_TOO_LATE.format(mark.name), pytrace=False)


@pytest.fixture(scope="session")
def cpu(request: pytest.FixtureRequest) -> Device:
    """The CPU, as a Device: `kind`, `backend`, `name`, `xp`, `asarray`, `asnumpy`, `synchronize`."""
    return _session(request.config).devices.cpu()


@pytest.fixture(scope="session")
def gpu(request: pytest.FixtureRequest) -> Device:
    """The GPU, as a Device; skips with the reason where there is none (--gpuperf-require-gpu: fails)."""
    return _session(request.config).devices.gpu()


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> Device:
    """In a speedup test one device after the other; in any other test a parameter: [cpu] and [gpu]."""
    kind = getattr(request, "param", "cpu" if request.config.stash[_IS_OFF] else None)
    if kind is None:
        from pytest_gpuperf.session.device_placeholder import DevicePlaceholder

        return DevicePlaceholder("device")  # replaced by a device in the measured call
    from pytest_gpuperf.model import ask

    found = _session(request.config).devices
    return found.cpu() if ask.is_one_of(kind, ("cpu",)) else found.gpu()


@pytest.fixture
def devices(request: pytest.FixtureRequest) -> DeviceGroup:
    """In a scaling test so many devices as its marker says; in any other test one, as `gpu` is."""
    count = getattr(request, "param", None)
    if count is None or request.config.stash[_IS_OFF]:
        return _session(request.config).devices.group(count or 1)
    from pytest_gpuperf.session.device_placeholder import DevicePlaceholder

    return DevicePlaceholder("devices")  # type: ignore[return-value]  # replaced by the devices in the measured call


@pytest.fixture
def ranks(request: pytest.FixtureRequest) -> RankGroup:
    """In a scaling test so many ranks of the launch as its marker says; in any other test this process."""
    count = getattr(request, "param", None)
    if count is None or request.config.stash[_IS_OFF]:
        return _session(request.config).devices.ranks(count or 1, meet=False)
    from pytest_gpuperf.session.device_placeholder import DevicePlaceholder

    return DevicePlaceholder("ranks")  # type: ignore[return-value]  # replaced by the ranks in the measured call


@pytest.fixture(scope="session")
def xp(device: Device) -> Any:
    """The array namespace of `device`: NumPy on the CPU, the GPU library's on the GPU."""
    return device.xp


@pytest.fixture
def gpuperf(request: pytest.FixtureRequest) -> GpuPerfFixture:
    """`both(body)` runs both devices in one test; `workload(call, reset=...)` restores what calls change."""
    from pytest_gpuperf.session.gpuperf_fixture import GpuPerfFixture

    return GpuPerfFixture(_session(request.config), request.node)


def _session(config: pytest.Config) -> GpuPerfSession:
    """Return the run's session, created when a test or an option first needs it."""
    return _hooks(config).session


def _hooks(config: pytest.Config) -> RunHooks:
    """Return the hooks of a run that measures, created and registered with its session at first use."""
    hooks: Any = config.pluginmanager.get_plugin(_RUN_HOOKS)
    if hooks is None:
        from pytest_gpuperf.session.run_hooks import RunHooks

        hooks = RunHooks(config)
        config.pluginmanager.register(hooks, _RUN_HOOKS)
        config.pluginmanager.register(hooks.finish_hooks)
        config.pluginmanager.register(hooks.finish_hooks.terminal_hooks)
        config.pluginmanager.register(hooks.finish_hooks.expected_tests)
        config.pluginmanager.register(hooks.cpu_run)
        config.pluginmanager.register(hooks.session.timers)
        if hooks.session.ranks.launch is not None:
            from pytest_gpuperf.session.ranks.hooks import RankHooks

            config.pluginmanager.register(RankHooks(hooks.session, hooks.cpu_run))
        if not config.stash[_IS_OFF]:
            _register_unmeasured_hooks(config)
    return hooks  # type: ignore[no-any-return]  # pluggy's registry is untyped


def _register_unmeasured_hooks(config: pytest.Config) -> None:
    from pytest_gpuperf.session.unmeasured_hooks import UnmeasuredHooks

    config.pluginmanager.register(UnmeasuredHooks(lambda spec: _session(config).devices.cpu(spec)))


def _add_markers(config: pytest.Config) -> None:
    """Register our markers; --markers shows how each is called, which other runs do not import."""
    calls = {name: name for name in _MARKERS}
    if config.getoption("markers"):
        from pytest_gpuperf.collection import markers

        calls = {name: markers.signature(name) for name in _MARKERS}
    for name, text in _MARKERS.items():
        config.addinivalue_line("markers", f"{calls[name]}: {text} (pytest-gpuperf)")


def _marks(node: pytest.Item | pytest.Collector) -> list[pytest.Mark]:
    return [mark for mark in node.iter_markers() if mark.name in _MARKERS]


def _marked(items: list[pytest.Item]) -> list[tuple[pytest.Item, list[pytest.Mark]]]:
    """Return the items with markers of ours and these: their own, and then those of classes and module."""
    of_parents: dict[pytest.Collector | None, list[pytest.Mark]] = {}
    marked = []
    for item in items:  # every item of every suite comes here: plain loops are fastest
        if (parent := item.parent) not in of_parents:
            of_parents[parent] = [] if parent is None else _marks(parent)
        inherited = of_parents[parent]
        marks = [mark for mark in item.own_markers if mark.name in _MARKERS]
        if marks or inherited:
            marked.append((item, marks + inherited))
    return marked
