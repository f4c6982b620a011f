"""From a record to the command that repeats its test: node ids and the options of its run, for a shell."""

import shlex
from collections.abc import Iterator, Sequence

from pytest_gpuperf.model.nodeid import function_of
from pytest_gpuperf.model.record import Record, Run

_OURS = "--gpuperf-"
_STRICT, _ALLOW_MISSING = f"{_OURS}strict", f"{_OURS}allow-missing"


def repeat_command(run: Run, record: Record) -> str:
    """Return the command that reaches a test's verdict again, when it is called in the root folder.

    A GPU sibling comes with its CPU sibling, and the last test of a size group, which has the threshold's
    verdict, with the others. Whatever a report holds, the command is one printable line, and calls pytest
    with node ids and options of ours.
    """
    tests = [_path(nodeid) for nodeid in _tests(run, record)]
    return " ".join(map(_quoted, ["pytest", *tests, *_options(run)]))


def _tests(run: Run, record: Record) -> Sequence[str]:
    """Return the node ids that a test's verdict needs: in short, the function that makes all of them."""
    members = _members(run, record)
    nodeids = list(dict.fromkeys(nodeid for member in members for nodeid in _with_partner(member)))
    if len(nodeids) == 1:
        return nodeids
    function = function_of(record.nodeid)
    of_function = {other.nodeid for other in run.records if function_of(other.nodeid) == function}
    return [function] if of_function == {*nodeids} else nodeids


def _members(run: Run, record: Record) -> Sequence[Record]:
    """Return the records of a size group, where this one has its verdict; else this one alone."""
    curves = (threshold.curve for threshold in run.thresholds)
    if not any(curve and curve[-1].nodeid == record.nodeid for curve in curves):
        return [record]
    family = record.family
    return [other for other in run.records if other.family and family and other.family.name == family.name]


def _with_partner(record: Record) -> Iterator[str]:
    if record.pairing and record.pairing.partner:
        yield record.pairing.partner
    yield record.nodeid


def _options(run: Run) -> Iterator[str]:
    """Yield the options of ours; a report may have been made by anyone, and name others."""
    options = [option for option in run.arguments if option.startswith(_OURS)]
    yield from options
    if _STRICT in options and _ALLOW_MISSING not in options:
        yield _ALLOW_MISSING  # the other tests of the baseline are left out on purpose


def _path(nodeid: str) -> str:
    """Return a node id that pytest takes for no option, and for no file of arguments (`@file`)."""
    return f"./{nodeid}" if nodeid.startswith(("-", "@")) else nodeid


def _quoted(word: str) -> str:
    """Return a word as a shell reads it; one with what cannot be shown in the form of bash and zsh."""
    if word.isprintable():
        return shlex.quote(word)
    return f"$'{''.join(map(_escaped, word))}'"


def _escaped(letter: str) -> str:
    if letter.isprintable():
        return f"\\{letter}" if letter in "\\'" else letter
    handler = "surrogateescape" if "\udc80" <= letter <= "\udcff" else "surrogatepass"  # bytes of a file name
    return "".join(f"\\x{byte:02x}" for byte in letter.encode(errors=handler))
