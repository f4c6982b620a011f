"""Entries of a baseline, and ways to lose one: suites on simulated devices with a test that gets worse.

A kind of entry and a way to lose it are objects with a name, in two lists; `hostile.py` combines them.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from pathlib import Path
from typing import Any

from pytest_gpuperf.model.metrics import Metric

__all__ = ["KINDS", "H", "Kind", "Suite", "Way", "honest_ways", "ways"]

LAB = '''
import os

import numpy as np

from pytest_gpuperf.devices.protocol import Backend
from pytest_gpuperf.devices.simulated import Clock, SimulatedDevice, Timing

FREE = Timing(kernel=0.0)


class Lab(Backend):
    """A CPU and GPUs of one name, on one clock: only what a test launches takes time."""

    def __init__(self, name, gpus):
        self.name, clock = name, Clock()
        self._cpu, *self._gpus = (SimulatedDevice(kind, clock=clock, timing=FREE) for kind in ["cpu", *gpus])

    def check(self, selector):
        pass

    def count(self):
        return len(self._gpus)

    def gpu(self, selector):
        return self._gpus[int(selector or 0)]

    def cpu(self):
        return self._cpu


ONE, TWO = Lab("one", ["gpu"]), Lab("two", ["gpu", "gpu"])
DEVICES = {"cpu": ONE.cpu(), "cuda": ONE.gpu("")}
WORSE = {kind: float(os.environ.get(f"WORSE_{kind.upper()}", "1")) for kind in ("cpu", "gpu", "memory")}


def work(device, *, is_lost, n=10):
    """Return a workload that takes n times as long on the CPU; the lost one may be worse."""
    worse = WORSE if is_lost else dict.fromkeys(WORSE, 1)
    values = device.asarray(np.ones(100))
    scratch = int(200 * worse["memory"])
    seconds = {"cpu": 0.0001 * n, "gpu": 0.0001}[device.kind] * worse[device.kind]

    def call():
        device.xp.zeros(scratch)
        device.launch(seconds)
        return values * 2

    return call


def shared_work(devices, *, is_lost):
    """Return a workload that the devices divide among them; the lost one may do it badly."""
    parts = devices.asarray(np.arange(8.0), shard=0)
    worse = WORSE["gpu"] if is_lost and devices.count > 1 else 1

    def call():
        for device in devices.all:
            device.launch(0.01 / devices.count * worse)
        return [part * 2 for part in parts]

    return call
'''
CONFTEST = """
import os
import pytest
import lab

@pytest.hookimpl(optionalhook=True)
def pytest_gpuperf_devices():
    return [lab.ONE, lab.TWO]
"""
HEAD = "import os\nimport pytest\nimport lab\n"
G, H = "unit/test_g.py", "test_h.py"
OTHERS, SIBLINGS = "OTHERS", "SIBLINGS"

# ---------------------------------------------------------------------------------------------------------
# Kinds of entries
# ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of entry that a baseline has.

    `source` is a test of this kind, and `bare` what a refactoring leaves of it that drops the device. `items`
    are the names of what pytest makes of it. `halves` are the parts of names by which its CPU and GPU items
    differ, where they are items of their own. `tests` is how many items have one and the same metric.
    """

    name: str
    source: str
    bare: str
    metrics: tuple[Metric, ...]
    items: tuple[str, ...]
    marker: str = "@pytest.mark.speedup"
    group: str | None = None
    halves: tuple[str, str] | None = None
    tests: int = 1
    gpu: str = "one"

    @property
    def has_halves(self) -> bool:
        """Whether the CPU and the GPU have items of their own."""
        return self.halves is not None

    def compared(self, metrics: Sequence[Metric]) -> int:
        """Return how many items of a test a regression check compares: the CPU half has its own times."""
        if self.name == "scaling":
            return 2 if "gpu_time" in metrics else 1  # the fewest devices have no efficiency
        holders = {metric == "cpu_time" for metric in metrics} if self.has_halves else {False}
        return self.tests * len(holders)

    def test(self, name: str, *, is_lost: bool = False) -> str:
        """Return one honest test."""
        return self.text(self.source, name, self.marker, is_lost=is_lost)

    def text(self, source: str, name: str, marks: str, *, is_lost: bool, begin: str = "pass") -> str:
        """Return a test's source with its name, its markers and the statement that it begins with."""
        values = {
            "MARKS": marks,
            "GROUP": self.group or "",
            "BEGIN": begin,
            "LOST": str(is_lost),
            "NAME": name,
        }
        for word, value in values.items():
            source = source.replace(word, value)
        return source


_TIMES: tuple[Metric, ...] = ("speedup", "gpu_time", "cpu_time")
_ALL: tuple[Metric, ...] = (*_TIMES, "latency", "with_copies", "memory")

KINDS = (
    Kind(
        name="device",
        source="MARKS\ndef NAME(device):\n    BEGIN\n    return lab.work(device, is_lost=LOST)\n",
        bare="MARKS\ndef NAME():\n    BEGIN\n",
        metrics=_ALL,
        items=("NAME",),
    ),
    Kind(
        name="method",
        source=(
            "class TestIt_NAME:\n    MARKS\n    def NAME(self, device):\n        BEGIN\n"
            "        return lab.work(device, is_lost=LOST)\n"
        ),
        bare="class TestIt_NAME:\n    MARKS\n    def NAME(self):\n        BEGIN\n",
        metrics=_ALL,
        items=("TestIt_NAME::NAME",),
    ),
    Kind(
        name="both",
        source=(
            "MARKS\ndef NAME(gpuperf):\n    BEGIN\n"
            "    gpuperf.both(lambda device: lab.work(device, is_lost=LOST)())\n"
        ),
        bare="MARKS\ndef NAME(gpuperf):\n    BEGIN\n",
        metrics=(*_TIMES, "latency", "memory"),
        items=("NAME",),
    ),
    Kind(
        name="xp",
        source=(
            "MARKS\n@pytest.mark.parametrize('xp', ['cpu', 'cuda'])\ndef NAME(xp):\n    BEGIN\n"
            "    return lab.work(lab.DEVICES[xp], is_lost=LOST)\n"
        ),
        bare="MARKS\ndef NAME():\n    BEGIN\n    return lab.work(lab.DEVICES['cuda'], is_lost=LOST)\n",
        metrics=_ALL,
        items=("NAME[cpu]", "NAME[cuda]"),
        halves=("[cpu]", "[cuda]"),
    ),
    Kind(
        name="fixture",
        source=(
            "@pytest.fixture\ndef data_NAME(device):\n    return device\n\n"
            "MARKS\ndef NAME(data_NAME):\n    BEGIN\n    return lab.work(data_NAME, is_lost=LOST)\n"
        ),
        bare="MARKS\ndef NAME():\n    BEGIN\n",
        metrics=_ALL,
        items=("NAME[cpu]", "NAME[gpu]"),
        halves=("[cpu]", "[gpu]"),
    ),
    Kind(
        name="two functions",
        source=(
            "MARKS\ndef NAME_cpu(cpu):\n    BEGIN\n    return lab.work(cpu, is_lost=LOST)\n\n"
            "MARKS\ndef NAME_gpu(gpu):\n    BEGIN\n    return lab.work(gpu, is_lost=LOST)\n"
        ),
        bare="MARKS\ndef NAME_cpu():\n    BEGIN\n\nMARKS\ndef NAME_gpu():\n    BEGIN\n",
        metrics=_ALL,
        items=("NAME_cpu", "NAME_gpu"),
        marker="@pytest.mark.speedup(pair='NAME')",
        halves=("_cpu", "_gpu"),
    ),
    Kind(
        name="sizes",
        source=(
            "MARKS\nGROUP\n@pytest.mark.parametrize('n', [1, 10, 100])\ndef NAME(device, n):\n    BEGIN\n"
            "    return lab.work(device, n=n, is_lost=LOST)\n"
        ),
        bare="MARKS\nGROUP\n@pytest.mark.parametrize('n', [1, 10, 100])\ndef NAME(n):\n    BEGIN\n",
        metrics=_ALL,
        items=("NAME[1]", "NAME[10]", "NAME[100]"),
        group="@pytest.mark.offload_threshold('n')",
        tests=3,
    ),
    Kind(
        name="scaling",
        source="MARKS\ndef NAME(devices):\n    BEGIN\n    return lab.shared_work(devices, is_lost=LOST)\n",
        bare="MARKS\ndef NAME():\n    BEGIN\n",
        metrics=("efficiency", "gpu_time"),
        items=("NAME[1device]", "NAME[2devices]"),
        marker="@pytest.mark.scaling([1, 2])",
        gpu="two",
    ),
)

# ---------------------------------------------------------------------------------------------------------
# The suite: the test to be lost, a second one in its file, and a third in another file
# ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Tests of one kind, test_a and test_b in a folder and test_h in the root; only test_a is ever lost.

    The texts may hold CPU_HALF and GPU_HALF, which differ from kind to kind, and OTHERS, all items of test_h:
    as an argument, or as what --lf reads. SIBLINGS are those of test_b.
    """

    kind: Kind
    name: str = "test_a"
    marks: str = ""
    is_marked: bool = True
    has_group: bool = True
    is_bare: bool = False
    begin: str = "pass"
    replaced: tuple[str, str] = ("", "")
    is_removed: bool = False
    is_reversed: bool = False
    place: str = G
    head: str = ""
    tail: str = ""
    new: str | None = None
    """Name of a test that is new in this suite, in the root."""
    conftest: str = ""
    ini: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: Path, ini: str = "") -> None:
        """Write the files of the suite, with lines for the ini file."""
        tests = [*(() if self.is_removed else [self._test_a()]), self.kind.test("test_b")]
        module = [self._own(self.head), *(reversed(tests) if self.is_reversed else tests), self.tail]
        own_files = {f"test_{self.new}.py": HEAD + self.kind.test(f"test_{self.new}")} if self.new else {}
        contents = {
            "lab.py": LAB,
            "conftest.py": CONFTEST + self._own(self.conftest),
            "pytest.ini": f"[pytest]\nmarkers = lost: a marker of the suite\n{self._own(self.ini)}\n{ini}\n",
            self.place: HEAD + "\n\n".join(module),
            H: HEAD + self.kind.test("test_h"),
            **own_files,
            **{name: self._own(text) for name, text in self.files.items()},
        }
        for name, text in contents.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    @property
    def typed(self) -> tuple[str, ...]:
        """The arguments of pytest that a user types for it."""
        lists = {OTHERS: self._items(H, "test_h"), SIBLINGS: self._items(G, "test_b")}
        given = (lists.get(each, [self._own(each)]) for each in self.arguments)
        return tuple(chain.from_iterable(given))

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that it is run with."""
        return {name: self._own(value) for name, value in self.variables.items()}

    def _items(self, place: str, test: str) -> list[str]:
        return [f"{place}::{name.replace('NAME', test)}" for name in self.kind.items]

    def _own(self, text: str) -> str:
        cpu, gpu = self.kind.halves or ("", "")
        failed = json.dumps(dict.fromkeys(self._items(H, "test_h"), True))
        for word, value in {"CPU_HALF": cpu, "GPU_HALF": gpu, OTHERS: failed}.items():
            text = text.replace(word, value)
        return text

    def _test_a(self) -> str:
        kind = replace(self.kind, group=self.kind.group if self.has_group else None)
        marks = [self.marks, kind.marker if self.is_marked else ""]
        source = (kind.bare if self.is_bare else kind.source).replace(*self.replaced)
        indented = "\n    " if kind.name == "method" else "\n"
        joined = indented.join(filter(None, marks)) or "# no marker"
        return kind.text(source, self.name, joined, is_lost=True, begin=self.begin)


# ---------------------------------------------------------------------------------------------------------
# Ways to lose test_a
# ---------------------------------------------------------------------------------------------------------


LeftOut = Callable[[Kind, Sequence[Metric]], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A way to lose test_a: what it changes in the suite.

    `left_out` is for what the user types: it returns how many items that leaves out of a regression check of
    some metrics; None where it leaves in what got worse. `worse=1` loses the test without anything that got
    worse. `processes` is the number of xdist's workers, 0 for none, where a way needs it. `prepare` changes
    the file of the baseline.
    """

    name: str
    changes: Mapping[str, Any]
    fits: Callable[[Kind], bool] = lambda _: True
    left_out: LeftOut | None = None
    worse: float = 50
    processes: int | None = None
    prepare: Callable[[Path], object] = lambda _: None

    def suite(self, kind: Kind) -> Suite:
        """Return the suite of a kind after this way."""
        return Suite(kind=kind, **self.changes)


def ways() -> tuple[Way, ...]:
    """Return all ways to lose a test, of which some fit some kinds only."""
    return (
        Way(name="none", changes={}),
        *_by_the_source(),
        *_by_its_file(),
        *_while_it_runs(),
        *_by_hooks(),
        *_by_the_configuration(),
        *_by_the_command_line(),
        *_by_the_baseline(),
    )


_MARKS = {
    "skip": "@pytest.mark.skip(reason='z')",
    "skipif": "@pytest.mark.skipif(True, reason='z')",
    "xfail": "@pytest.mark.xfail",
    "xfail, strict": "@pytest.mark.xfail(strict=True)",
    "xfail, not run": "@pytest.mark.xfail(run=False)",
    "xfail, raises": "@pytest.mark.xfail(raises=Exception)",
    "usefixtures": "@pytest.mark.usefixtures('no_such')",
}


def _by_the_source() -> Iterator[Way]:
    yield Way(name="renamed", changes={"name": "test_z"})
    yield Way(name="no test any more", changes={"name": "tost_a"})
    yield Way(name="removed", changes={"is_removed": True})
    yield Way(name="unmarked", changes={"is_marked": False})
    yield Way(name="without its device", changes={"is_bare": True})
    yield Way(name="unmarked, without its device", changes={"is_bare": True, "is_marked": False})
    yield Way(name="its marker is another name's", changes={"is_marked": False, "marks": "@pytest.mark.lost"})
    takes_device = {"device", "method", "sizes", "fixture"}
    for kind in ("cpu", "gpu"):
        yield Way(
            name=f"only the {kind}",
            changes={"replaced": ("device", kind)},
            fits=lambda kind: kind.name in takes_device,
        )
    for half in ("cpu", "cuda"):
        yield Way(
            name=f"parameter without all but {half}",
            changes={"replaced": ("['cpu', 'cuda']", f"['{half}']")},
            fits=lambda kind: kind.name == "xp",
        )
    yield Way(
        name="the largest size is gone",
        changes={"replaced": (", 100]", "]")},
        fits=lambda kind: kind.name == "sizes",
        worse=1,
    )
    yield Way(
        name="no group", changes={"has_group": False}, fits=lambda kind: kind.group is not None, worse=1
    )
    for name, mark in _MARKS.items():
        yield Way(name=f"mark {name}", changes={"marks": mark})


def _by_its_file() -> Iterator[Way]:
    yield Way(name="file renamed", changes={"place": "unit/test_z.py"})
    yield Way(name="file moved", changes={"place": "more/test_g.py"})
    yield Way(name="file of another name", changes={"place": "unit/g.py"})
    heads = {
        "importorskip": "pytest.importorskip('no_such')",
        "skips itself": "pytest.skip('z', allow_module_level=True)",
        "pytestmark skip": "pytestmark = pytest.mark.skip(reason='z')",
        "pytestmark xfail": "pytestmark = pytest.mark.xfail",
        "import error": "import no_such",
    }
    for name, head in heads.items():
        yield Way(name=f"file, {name}", changes={"head": head})
    yield Way(
        name="package skips itself",
        changes={"files": {"unit/__init__.py": f"import pytest\n{heads['skips itself']}\n"}},
    )


def _while_it_runs() -> Iterator[Way]:
    bodies = {
        "skip": "pytest.skip('z')",
        "xfail": "pytest.xfail('z')",
        "return": "return",
        "exception": "raise ValueError('z')",
        "SystemExit": "raise SystemExit(0)",
        "KeyboardInterrupt": "raise KeyboardInterrupt",
        "pytest.exit": "pytest.exit('z', returncode=0)",
    }
    for name, begin in bodies.items():
        yield Way(name=f"body, {name}", changes={"begin": begin})
    for name in ("skip", "exception"):
        yield Way(name=f"body, {name}, mark xfail", changes={"begin": bodies[name], "marks": _MARKS["xfail"]})
    for name in ("skip", "xfail", "exception"):
        fixture = f"""
@pytest.fixture(autouse=True)
def before(request):
    if 'test_a' in request.node.name:
        {bodies[name]}
"""
        yield Way(name=f"setup, {name}", changes={"conftest": fixture})
    hooks = {
        "setup hook skips": ("runtest_setup(item)", "'test_a' in item.name and pytest.skip('z')"),
        "call hook skips": ("runtest_call(item)", "'test_a' in item.name and pytest.skip('z')"),
        "protocol is replaced": ("runtest_protocol(item)", "return 'test_a' in item.name or None"),
        "call is replaced": ("pyfunc_call(pyfuncitem)", "return 'test_a' in pyfuncitem.name or None"),
        "loop is replaced": ("runtestloop(session)", "return True"),
    }
    for name, (hook, code) in hooks.items():
        conftest = f"\n@pytest.hookimpl(tryfirst=True)\ndef pytest_{hook}:\n    {code}\n"
        yield Way(name=name, changes={"conftest": conftest})
    failing = {"test_f.py": "def test_first():\n    assert 0\n"}
    yield Way(name="stopped by -x", changes={"files": failing, "arguments": ("-x",)})
    crashes = {"os._exit": "os._exit(0)", "SIGKILL": "os.kill(os.getpid(), 9)", "abort": "os.abort()"}
    for name, begin in crashes.items():
        yield Way(name=f"crash, {name}", changes={"begin": begin}, processes=2)
    second = "pytest.Function.from_parent(collector, name=name, callobj=collector.obj.test_b)"
    for name, order in {"first": f"[{second}, *made]", "last": f"[*made, {second}]"}.items():
        conftest = f"""
@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector, name):
    made = yield
    return {order} if name == "test_a" and made else made
"""
        yield Way(
            name=f"two of one node id, the fast one {name}",
            changes={"conftest": conftest},
            fits=lambda kind: kind.items == ("NAME",),
            processes=0,
        )


_DROP = "items[:] = [item for item in items if item not in lost]"
_ACTIONS = {
    "drops": _DROP,
    "deselects": f"{_DROP}\n    config.hook.pytest_deselected(items=lost)",
    "skips": "for item in lost:\n        item.add_marker(pytest.mark.skip(reason='z'))",
    "xfails": "for item in lost:\n        item.add_marker(pytest.mark.xfail)",
    "does not run": "for item in lost:\n        item.add_marker(pytest.mark.xfail(run=False))",
    "unmarks": (
        "for item in lost:\n        for node in item.listchain():\n            node.own_markers[:] = "
        "[mark for mark in node.own_markers if mark.name not in ('speedup', 'scaling')]"
    ),
}
_HALVES = {"it": "", "its CPU half": "CPU_HALF", "its GPU half": "GPU_HALF"}


def _hook(action: str, half: str, options: str = "") -> str:
    return f"""
@pytest.hookimpl({options})
def pytest_collection_modifyitems(config, items):
    lost = [item for item in items if "test_a" in item.name and "{half}" in item.name]
    {_ACTIONS[action]}
"""


def _by_hooks() -> Iterator[Way]:
    """Yield what a conftest.py does with the collected test, or with one half of it."""
    for action, (what, half), order in product(_ACTIONS, _HALVES.items(), ("tryfirst", "trylast")):
        # Markers are read before the last hook runs.
        if action != "unmarks" or order == "tryfirst":
            yield Way(
                name=f"a hook {action} {what}, {order}",
                changes={"conftest": _hook(action, half, f"{order}=True")},
                fits=lambda kind, half=half: not half or kind.has_halves,  # type: ignore[misc]
            )
    added = """
def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true")
"""
    yield Way(
        name="an option of conftest.py",
        changes={"conftest": added + _hook("deselects", ""), "arguments": ("--quick",)},
    )


_ITEM_OPTIONS: dict[str, tuple[str, ...]] = {
    "-k": ("-k", "not test_a"),
    "-m": ("-m", "not lost"),
    "--deselect": (f"--deselect={G}::test_a", f"--deselect={G}::TestIt_test_a"),
}
_FILE_OPTIONS: dict[str, tuple[str, ...]] = {
    "--deselect a file": (f"--deselect={G}",),
    "--ignore": (f"--ignore={G}",),
    "--ignore a folder": ("--ignore=unit",),
    "--ignore-glob": ("--ignore-glob=*_g.py",),
}
_HALF_OPTIONS: dict[str, tuple[str, ...]] = {
    "-k, the CPU half": ("-k", "not (test_a and CPU_HALF)"),
    "-k, the GPU half": ("-k", "not (test_a and GPU_HALF)"),
}
_OPTIONS = _ITEM_OPTIONS | _FILE_OPTIONS | _HALF_OPTIONS


def _by_the_configuration() -> Iterator[Way]:
    conftests = {
        "collect_ignore": f"collect_ignore = ['{G}']",
        "collect_ignore, a folder": "collect_ignore = ['unit']",
        "collect_ignore_glob": "collect_ignore_glob = ['*_g.py']",
        "pytest_ignore_collect": (
            "def pytest_ignore_collect(collection_path):\n"
            "    return collection_path.name == 'test_g.py' or None"
        ),
        "pytest_collect_file": (
            "@pytest.hookimpl(wrapper=True)\ndef pytest_collect_file(file_path):\n"
            "    made = yield\n    return [] if file_path.name == 'test_g.py' else made"
        ),
        "option.keyword": "def pytest_configure(config):\n    config.option.keyword = 'not test_a'",
        "option.deselect": f"def pytest_configure(config):\n    config.option.deselect = ['{G}']",
        "option.ignore": f"def pytest_configure(config):\n    config.option.ignore = ['{G}']",
        "args": f"def pytest_configure(config):\n    config.args[:] = ['{H}']",
    }
    for name, text in conftests.items():
        yield Way(name=f"conftest, {name}", changes={"conftest": f"\n{text}\n"})
    lines = {
        "python_files": "python_files = test_h.py",
        "python_functions": "python_functions = test_b* test_h*",
        "testpaths": f"testpaths = {H}",
        "norecursedirs": "norecursedirs = unit",
        "gpuperf_off": "gpuperf_off = true",
    }
    for name, line in lines.items():
        yield Way(name=f"ini, {name}", changes={"ini": line})
    for name, arguments in _OPTIONS.items():
        quoted = " ".join(f"'{each}'" for each in arguments)
        marked = {"marks": "@pytest.mark.lost"}
        fits = _fits(name)
        yield Way(name=f"addopts {name}", changes={"ini": f"addopts = {quoted}", **marked}, fits=fits)
        variables = {"PYTEST_ADDOPTS": quoted}
        yield Way(name=f"PYTEST_ADDOPTS {name}", changes={"variables": variables, **marked}, fits=fits)
    yield Way(name="PYTEST_ADDOPTS --gpuperf-off", changes={"variables": {"PYTEST_ADDOPTS": "--gpuperf-off"}})
    yield Way(
        name="testpaths, named by an option, too",
        changes={"ini": f"testpaths = {H}", "arguments": ("--junit-prefix", H)},
    )
    yield Way(name="another rootdir", changes={"arguments": ("--rootdir=unit",)})
    yield Way(name="no GPU", changes={"arguments": ("--gpuperf-gpu=none",)})
    yield Way(name="--gpuperf-off", changes={"arguments": ("--gpuperf-off",)})
    yield Way(name="a short time", changes={"arguments": ("--gpuperf-max-time=0.001",)})
    yield Way(name="doubts ignored", changes={"arguments": ("-Wignore::pytest_gpuperf.InconclusiveWarning",)})


def _by_the_command_line() -> Iterator[Way]:
    for left_out, options in ((_test_a, _ITEM_OPTIONS), (_file, _FILE_OPTIONS)):
        for name, arguments in options.items():
            changes = {"arguments": arguments, "marks": "@pytest.mark.lost"}
            yield Way(name=name, changes=changes, left_out=left_out)
    for (name, arguments), left_out in zip(_HALF_OPTIONS.items(), (_cpu_half, _gpu_half), strict=True):
        yield Way(name=name, changes={"arguments": arguments}, fits=_fits(name), left_out=left_out)
    yield Way(name="another file", changes={"arguments": (H,)}, left_out=_file)
    yield Way(name="tests of another file", changes={"arguments": (OTHERS,)}, left_out=_file)
    yield Way(name="another test of its file", changes={"arguments": (SIBLINGS, H)}, left_out=_test_a)
    failed = {".pytest_cache/v/cache/lastfailed": OTHERS}
    yield Way(name="--lf", changes={"arguments": ("--lf",), "files": failed}, left_out=_file)


def _by_the_baseline() -> Iterator[Way]:
    changes: dict[str, Callable[[Path], object]] = {
        "cut": lambda path: os.truncate(path, 3000),
        "empty": lambda path: os.truncate(path, 0),
        "gone": Path.unlink,
        "a link": _link,
        "a link to itself": lambda path: (path.unlink(), path.symlink_to(path.name)),
        "a test twice in it": _twice,
        "conflict markers": lambda path: _replace(path, "[\n", "<<<<<<< HEAD\n[\n"),
        "other node ids": lambda path: _replace(path, G, f"elsewhere/{G}"),
    }
    for name, prepare in changes.items():
        yield Way(name=f"baseline, {name}", changes={}, prepare=prepare)
    yield Way(name="ini, a misspelt key", changes={"ini": "gpuperf_failon = speedup:10%"})
    yield Way(name="no unit", changes={"arguments": ("--gpuperf-fail-on=memory:10",)})


def _link(path: Path) -> None:
    path.rename(path.with_name("real.json"))
    path.symlink_to("real.json")


def _replace(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


def _twice(path: Path) -> None:
    """Leave the baseline with two lines of one test, as a merge conflict that kept both."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if "::" in line and "test_a" in line)
    lines.insert(place, lines[place].rstrip().rstrip(",") + ",\n")
    path.write_text("".join(lines), encoding="utf-8")


def _fits(name: str) -> Callable[[Kind], bool]:
    return (lambda kind: kind.has_halves) if name in _HALF_OPTIONS else (lambda _: True)


def _test_a(kind: Kind, metrics: Sequence[Metric]) -> int:
    return kind.compared(metrics)


def _file(kind: Kind, metrics: Sequence[Metric]) -> int:
    return 2 * kind.compared(metrics)


def _cpu_half(_: Kind, metrics: Sequence[Metric]) -> int | None:
    """Return 1 where the CPU's times are all that is compared: the GPU half runs its CPU half anyway."""
    return 1 if set(metrics) == {"cpu_time"} else None


def _gpu_half(_: Kind, metrics: Sequence[Metric]) -> int | None:
    return None if set(metrics) == {"cpu_time"} else 1


# ---------------------------------------------------------------------------------------------------------
# Honest runs: nothing is lost
# ---------------------------------------------------------------------------------------------------------


def honest_ways() -> tuple[Way, ...]:
    """Return what people do that loses no test, or leaves tests out on purpose."""
    other_names = LAB.replace("call", "inner").replace("FREE", "NO_TIME")
    left_out = (way for way in _by_the_command_line() if way.left_out is not None)
    return (
        Way(name="nothing", changes={}, worse=1),
        Way(name="another order", changes={"is_reversed": True}, worse=1),
        Way(name="private helpers renamed", changes={"files": {"lab.py": other_names}}, worse=1),
        Way(name="a new test", changes={"new": "new"}, worse=1),
        Way(name="new tests that skip", changes={"tail": _MORE_TESTS}, worse=1),
        Way(name="a new docstring", changes={"head": '"""Tests."""'}, worse=1),
        Way(name="a mark of its own", changes={"marks": "@pytest.mark.lost"}, worse=1),
        Way(name="5 % worse", changes={}, worse=1.05, fits=lambda kind: kind.name != "scaling"),
        Way(name="twice as fast", changes={}, worse=0.5, fits=lambda kind: kind.name != "scaling"),
        *(
            Way(name=" ".join(arguments), changes={"arguments": arguments}, worse=1)
            for arguments in _HARMLESS
        ),
        *(replace(way, worse=1) for way in left_out),
    )


_MORE_TESTS = """
def test_plain():
    pass

@pytest.mark.skip(reason="z")
def test_skipped():
    pass

@pytest.mark.xfail
def test_expected():
    assert 0
"""
_HARMLESS = (
    ("-x",), ("-vv",), ("-s",), ("-rA",), ("--ff",), ("--nf",), ("--lf",), ("--tb=short",),
    ("--durations=3",),
    ("-k", "test"), ("-m", "not lost"), ("unit", H), (".",), (H, G), ("--ignore=no_such",), ("--maxfail=1",),
    ("--import-mode=importlib",), ("--gpuperf-html=page.html",), ("-p", "no:cacheprovider"),
    ("--no-summary",),
)  # fmt: skip
