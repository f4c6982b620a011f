"""From a record to the command that repeats its test: node ids and the options of its run, for a shell."""

import shlex
from collections.abc import Collection, Iterator

from pytest_gpuperf.model.nodeid import function_of, has_module_name, without_number
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record, Run

_PREFIX = "--gpuperf-"
_EMULATED_DEVICES = "JAX_NUM_CPU_DEVICES"
_STRICT, _ALLOW_MISSING = f"{_PREFIX}strict", f"{_PREFIX}allow=missing"


def last_sizes(run: Run) -> frozenset[str]:
    """Return the tests of the largest sizes, which have the verdicts of their thresholds."""
    return frozenset(threshold.curve[-1].nodeid for threshold in run.thresholds if threshold.curve)


def command(run: Run, record: Record, last_sizes: Collection[str]) -> str:
    """Return the command that reaches a test's verdict again, when it is called in the root folder.

    A GPU variant comes with its CPU variant, and the last test of a size group, which has the threshold's
    verdict, with all tests of its function. Whatever a report holds, the command is one printable line, and
    calls pytest with node ids and options of ours.
    """
    nodeids = [record.pairing.partner] if record.pairing and record.pairing.partner else []
    tests = [without_number(nodeid) for nodeid in (*nodeids, record.nodeid)]
    if record.size_group and record.nodeid in last_sizes:
        tests = [function_of(nodeid) for nodeid in tests]
    by_name = ["--pyargs"] if has_module_name(record.nodeid) else []
    words = ["pytest", *by_name, *map(_path, dict.fromkeys(tests)), *_options(run)]
    return " ".join([*_settings(run, record), *map(_quoted, words)])


def _path(nodeid: str) -> str:
    """Return a node id that pytest takes for no option, and for no file of arguments (`@file`)."""
    return f"./{nodeid}" if nodeid.startswith(("-", "@")) else nodeid


def _options(run: Run) -> Iterator[str]:
    """Yield the options of ours; a report may have been made by anyone, and name others."""
    options = [option for option in run.arguments if option.startswith(_PREFIX)]
    yield from options
    if _STRICT in options and _ALLOW_MISSING not in options:
        yield _ALLOW_MISSING  # the other tests of the baseline are left out on purpose


def _settings(run: Run, record: Record) -> Iterator[str]:
    """Yield the variable without which a scaling test would lack emulated devices."""
    number = (run.environment.variables or {}).get(_EMULATED_DEVICES)
    if record.scaling and number:
        yield f"{_EMULATED_DEVICES}={_quoted(number)}"


def _quoted(word: str) -> str:
    return shlex.quote(printable(word))
