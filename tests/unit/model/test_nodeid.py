"""Node ids: a test's file, function, name and parameters."""

from cases import for_each

from pytest_gpuperf.model.nodeid import file_of, function_of, name_of, parameters_of, split

NODEID = "tests/test_fft.py::TestFft::test_it[a/b::c[0]-64]"


def test_a_node_id_has_a_file_a_function_a_name_and_parameters():
    assert "tests/test_fft.py" == file_of(NODEID)
    assert "tests/test_fft.py::TestFft::test_it" == function_of(NODEID)
    assert "test_it[a/b::c[0]-64]" == name_of(NODEID)
    assert "a/b::c[0]-64" == parameters_of(NODEID)


@for_each(
    ("expected", "nodeid"),
    [
        (("tests/test_fft.py", "TestFft::test_it[x::y]"), "tests/test_fft.py::TestFft::test_it[x::y]"),
        (("tests/test_fft.py", ""), "tests/test_fft.py"),
    ],
)
def test_a_node_id_is_split_behind_its_file(expected, nodeid):
    assert expected == split(nodeid)


def test_a_test_without_parameters_has_none():
    assert "" == parameters_of("test_fft.py::test_it")
    assert "test_it" == name_of("test_fft.py::test_it")
