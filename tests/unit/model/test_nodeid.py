"""Node ids: a test's file, function, name and parameters."""

from cases import for_each

from pytest_gpuperf.model.nodeid import function_of, name_of, split

NODEID, PLAIN = "tests/test_fft.py::TestFft::test_it[a/b::c[0]-64]", "test_fft.py::test_it"


@for_each(
    ("expected", "part_of", "nodeid"),
    [
        ("tests/test_fft.py::TestFft::test_it", function_of, NODEID),
        ("test_it[a/b::c[0]-64]", name_of, NODEID),
        (("tests/test_fft.py", "TestFft::test_it[a/b::c[0]-64]"), split, NODEID),
        (("tests/test_fft.py", ""), split, "tests/test_fft.py"),
        ("test_it", name_of, PLAIN),
    ],
)
def test_a_node_id_has_a_file_a_function_and_a_name(expected, part_of, nodeid):
    assert expected == part_of(nodeid)
