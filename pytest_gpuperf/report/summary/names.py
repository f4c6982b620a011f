"""From node ids to names that are as short as can be while no two tests share one."""

from collections import Counter
from collections.abc import Collection, Iterable

from pytest_gpuperf.model.nodeid import function_of, name_of
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record
from pytest_gpuperf.report.columns import beginning, columns, end


def short_names(records: Iterable[Record]) -> dict[str, str]:
    """Return the tests' names; with their files, or whole node ids, where those would be ambiguous."""
    functions = _short_functions({function_of(record.nodeid) for record in records})
    names = {}
    for record in records:
        function = function_of(record.nodeid)
        names[record.nodeid] = printable(functions[function] + record.nodeid[len(function) :])
    return names


def _short_functions(functions: Collection[str]) -> dict[str, str]:
    """Return the shortest name of each function that no other has."""
    shortest: dict[str, str] = {}
    for shorten_one in (_without_path, name_of):  # the shortest last: it replaces the one before
        names = {function: shorten_one(function) for function in functions}
        counts = Counter(names.values())
        shortest.update({function: name for function, name in names.items() if counts[name] == 1})
    return {function: shortest.get(function, function) for function in functions}


def _without_path(function: str) -> str:
    return function.rpartition("/")[2]


def without_middle(name: str, width: int) -> str:
    """Return a name without its middle, where the whole takes too many columns: `test_a_sma~numpy[8]`."""
    if columns(name) <= width:
        return name
    return f"{beginning(name, width // 2)}~{end(name, width - width // 2 - 1)}"


def shorten(name: str, width: int) -> str:
    """Return the end of a name, which differs between tests, where the whole takes too many columns."""
    return name if columns(name) <= width else f"~{end(name, width - 1)}"
