"""Parts of pytest's node ids, such as `tests/test_fft.py::TestFft::test_it[gpu-64]`.

The ids of records are the same, except that a module outside of pytest's root folder has its name in the
place of the file (`package.test_fft::test_it`), and a test's second result a number (`t.py::test_it#2`).
"""

import re

_IN_MODULE = re.compile(r"\w+(\.\w+)*(?<!\.py)::")
_NUMBER = re.compile(r"#\d+$")  # what is in a parameter's id ends before a bracket


def split(nodeid: str) -> tuple[str, str]:
    """Return the file and the names in it: `tests/test_fft.py`, `TestFft::test_it[gpu-64]`."""
    file, _, names = nodeid.partition("::")
    return file, names


def function_of(nodeid: str) -> str:
    """Return the node id without its parameters: `tests/test_fft.py::TestFft::test_it`."""
    return nodeid.partition("[")[0]


def name_of(nodeid: str) -> str:
    """Return the test's own name: `test_it[gpu-64]`."""
    # Colons and slashes in the parameters belong to the name.
    function = function_of(nodeid)
    return function.rpartition("::")[2] + nodeid[len(function) :]


def numbered(nodeid: str, number: int) -> str:
    """Return the id of a test's second or later result in one run; the first one has the test's own."""
    return nodeid if number == 1 else f"{nodeid}#{number}"


def without_number(nodeid: str) -> str:
    """Return the id of the test that a result is of."""
    return _NUMBER.sub("", nodeid)


def has_module_name(nodeid: str) -> bool:
    """Return whether an id begins with a module's name, as --pyargs takes it, and not with a file."""
    return _IN_MODULE.match(nodeid) is not None
