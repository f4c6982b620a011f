"""Parts of pytest's node ids, such as `tests/test_fft.py::TestFft::test_it[gpu-64]`."""


def split(nodeid: str) -> tuple[str, str]:
    """Return the file and the names in it: `tests/test_fft.py`, `TestFft::test_it[gpu-64]`."""
    file, _, names = nodeid.partition("::")
    return file, names


def file_of(nodeid: str) -> str:
    """Return the file: `tests/test_fft.py`."""
    return nodeid.partition("::")[0]


def function_of(nodeid: str) -> str:
    """Return the node id without its parameters: `tests/test_fft.py::TestFft::test_it`."""
    return nodeid.partition("[")[0]


def name_of(nodeid: str) -> str:
    """Return the test's own name: `test_it[gpu-64]`."""
    # Colons and slashes in the parameters belong to the name.
    function = function_of(nodeid)
    return function.rpartition("::")[2] + nodeid[len(function) :]


def parameters_of(nodeid: str) -> str:
    """Return the parameters' ids without their brackets: `gpu-64`; empty where there are none."""
    return nodeid.partition("[")[2].removesuffix("]")
