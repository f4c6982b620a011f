"""Siblings: tests of a suite's own that differ in their device only, in the shapes that suites have."""

import json

import pytest

SUITE = """
    import types
    import pytest
    from pytest_gpuperf.devices.simulated import SimulatedBackend

    BACKEND = SimulatedBackend(name="cupy")

    def module(name, namespace):
        found = types.ModuleType(name)
        found.__getattr__ = lambda attribute: getattr(namespace, attribute)
        return found

    numpy, cupy = module("numpy", BACKEND.cpu().xp), module("array_api_compat.cupy", BACKEND.gpu("").xp)
    LIBRARIES = {"numpy": numpy, "cupy": cupy, "cpu": numpy, "cuda": cupy, "gpu": cupy}

    @pytest.hookimpl(optionalhook=True)
    def pytest_gpuperf_devices():
        return [BACKEND]

    @pytest.fixture(params=["numpy", "cupy"])
    def xp(request):
        return LIBRARIES[request.param]
"""
PASSED = pytest.approx(10, rel=0.01)  # what the simulated devices are set to: 10 ms and 1 ms


@pytest.fixture
def suite(run, pytester):
    """Run a suite whose conftest has a CuPy of simulated time; return the outcome and its records."""

    def call(source, *options, ini=""):
        pytester.makeconftest(SUITE)
        pytester.makeini(f"[pytest]\n{ini}")
        result = run(
            f"import pytest, conftest, unittest\n{source}", *options, "--gpuperf-json=r.json", gpu="cupy"
        )
        report = pytester.path / "r.json"
        content = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {"records": []}
        return result, {
            record["nodeid"].removeprefix("test_it.py::"): record for record in content["records"]
        }

    return call


VALUES = {
    "modules": ("xp", "[conftest.numpy, conftest.cupy]", "{0}"),
    "names of libraries": ("module", "['numpy', 'cupy']", "conftest.LIBRARIES[{0}]"),
    "names of devices": ("device", "['cpu', 'cuda']", "conftest.LIBRARIES[{0}]"),
}


@pytest.mark.parametrize("values", VALUES, ids=str)
def test_items_that_differ_in_a_device_like_parameter_are_siblings_whatever_its_value(suite, values):
    name, listed, library = VALUES[values]
    result, records = suite(
        f"""
@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("n", [4, 8])
@pytest.mark.parametrize("{name}", {listed}, ids=["a", "b"])
def test_ones({name}, n):
    {library.format(name)}.ones(n)
"""
    )
    result.assert_outcomes(passed=4)
    assert [records[f"test_ones[a-{n}]"]["status"] for n in (4, 8)] == ["recorded", "recorded"]
    assert [records[f"test_ones[b-{n}]"]["speedup"]["value"] for n in (4, 8)] == [PASSED, PASSED]
    assert records["test_ones[b-8]"]["pairing"] == {
        "side": "gpu",
        "library": "simulated",
        "partner": "test_it.py::test_ones[a-8]",
    }
    assert {record["scope"] for record in records.values()} == {"body"}


def test_a_parametrized_fixture_of_the_suite_makes_siblings(suite):
    result, records = suite(
        "@pytest.mark.speedup(min=3)\ndef test_ones(xp):\n    return lambda: xp.ones(3)\n"
    )
    result.assert_outcomes(passed=2)
    assert records["test_ones[cupy]"]["speedup"]["value"] == PASSED
    assert records["test_ones[cupy]"]["scope"] == "call"


def test_several_device_like_parameters_work_together(suite):
    result, records = suite(
        """
PLACES = [
    ("numpy", None, "float64"), ("cupy", "cuda", "float64"),
    ("numpy", None, "float32"), ("cupy", None, "float32"),
]

@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("array_namespace, device, dtype_name", PLACES)
def test_ones(array_namespace, device, dtype_name):
    conftest.LIBRARIES[array_namespace].ones(3, dtype=dtype_name)
"""
    )
    result.assert_outcomes(passed=4)
    partners = {nodeid: record["pairing"]["partner"] for nodeid, record in records.items()}
    assert partners["test_ones[cupy-cuda-float64]"] == "test_it.py::test_ones[numpy-None-float64]"
    assert partners["test_ones[cupy-None-float32]"] == "test_it.py::test_ones[numpy-None-float32]"


def test_the_ini_file_names_other_parameters(suite):
    source = """
@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("engine", ["numpy", "cupy"])
def test_ones(engine):
    conftest.LIBRARIES[engine].ones(3)
"""
    result, _ = suite(source)
    result.stdout.fnmatch_lines(["a speedup test needs a device: *"])
    result, records = suite(source, ini="gpuperf_device_params = engine")
    result.assert_outcomes(passed=2)
    assert records["test_ones[cupy]"]["status"] == "passed"


@pytest.mark.parametrize("value", ["lambda: 0", "'fftw'", "object()", "3"])
def test_a_value_that_is_no_device_is_an_error_that_names_it_and_the_key(suite, value):
    result, _ = suite(
        f"""
@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("backend", ["numpy", {value}])
def test_ones(backend):
    pass
"""
    )
    result.assert_outcomes(errors=1)
    shown = {"lambda: 0": "<function <lambda>", "object()": "<object object"}.get(value, value)
    result.stdout.fnmatch_lines(
        [f"test_it.py::test_ones[[]*: backend={shown}* is no device*gpuperf_device_params*"]
    )


def test_values_that_contradict_each_other_are_an_error(suite):
    result, _ = suite(
        """
@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("xp, device", [("numpy", "cuda")])
def test_ones(xp, device):
    pass
"""
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*device='cuda', xp='numpy': numpy has no GPU*"])


def test_a_gpu_is_compared_with_the_cpu_of_its_own_library_else_with_numpy(suite, pytester):
    pytester.syspathinsert()
    pytester.makepyfile(
        third="""
        from pytest_gpuperf.devices.simulated import SimulatedBackend, Timing

        class Backend(SimulatedBackend):
            def recognizes(self, value):
                return {"mylib:cpu": "cpu", "mylib:gpu": "gpu"}.get(value)

        BACKEND = Backend(name="mylib", cpu=Timing(kernel=5e-3))

        def pytest_gpuperf_devices():
            return [BACKEND]
        """
    )
    result, records = suite(
        """
import third
PLACES = {"mylib:cpu": third.BACKEND.cpu(), "mylib:gpu": third.BACKEND.gpu("")}

@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("library", ["cupy", "mylib:gpu", "numpy", "mylib:cpu"])
def test_ones(library):
    xp = PLACES[library].xp if library in PLACES else conftest.LIBRARIES[library]
    xp.ones(3)
""",
        "-p",
        "third",
    )
    result.assert_outcomes(passed=4)
    assert [*records] == [
        "test_ones[numpy]",
        "test_ones[cupy]",
        "test_ones[mylib:cpu]",
        "test_ones[mylib:gpu]",
    ]
    assert records["test_ones[cupy]"]["pairing"]["partner"] == "test_it.py::test_ones[numpy]"
    assert records["test_ones[mylib:gpu]"]["pairing"]["partner"] == "test_it.py::test_ones[mylib:cpu]"
    assert records["test_ones[cupy]"]["speedup"]["value"] == PASSED
    assert records["test_ones[mylib:gpu]"]["speedup"]["value"] == pytest.approx(5, rel=0.01)


def test_the_closest_marker_wins_and_one_on_a_parameter_takes_its_sibling_along(suite):
    result, records = suite(
        """
pytestmark = pytest.mark.speedup(min=300)

@pytest.mark.speedup(min=3)
class TestIt:
    def test_class(self, xp):
        xp.ones(3)

    @pytest.mark.speedup(min=4)
    def test_method(self, xp):
        xp.ones(3)

class TestOther:
    pytestmark = pytest.mark.speedup(min=6)

    def test_own(self, xp):
        xp.ones(3)
"""
    )
    result.assert_outcomes(passed=6)
    limits = {nodeid: record["demand"]["min"] for nodeid, record in records.items() if "cupy" in nodeid}
    assert limits == {
        "TestIt::test_class[cupy]": 3,
        "TestIt::test_method[cupy]": 4,
        "TestOther::test_own[cupy]": 6,
    }


def test_a_marker_on_a_parameter_takes_its_sibling_along(suite):
    result, records = suite(
        """
FAST = pytest.param(conftest.cupy, marks=pytest.mark.speedup(min=5))

@pytest.mark.parametrize("xp", [conftest.numpy, FAST], ids=["xp0", "xp1"])
def test_ones(xp):
    xp.ones(3)

@pytest.mark.parametrize("n", [3, pytest.param(4, marks=pytest.mark.speedup)])
@pytest.mark.parametrize("xp", [conftest.numpy, conftest.cupy], ids=["xp0", "xp1"])
def test_sizes(xp, n):
    xp.ones(n)
"""
    )
    result.assert_outcomes(passed=6)
    assert len(records) == 4
    assert records["test_ones[xp1]"]["demand"]["min"] == 5
    assert records["test_ones[xp1]"]["status"] == "passed"
    assert records["test_sizes[xp1-4]"]["speedup"]["value"] == PASSED


def test_a_unittest_is_timed_as_a_whole_body_between_set_up_and_tear_down(suite):
    result, _ = suite(
        """
class TestIt(unittest.TestCase):
    def setUp(self):
        self.n = 3

    @pytest.mark.speedup(pair="ones", min=3)
    def test_ones_cpu(self):
        with self.subTest(n=self.n):
            conftest.numpy.ones(self.n)

    @pytest.mark.speedup(pair="ones", min=300)
    def test_ones_gpu(self):
        conftest.cupy.ones(self.n)

    def tearDown(self):
        assert self.n == 3
"""
    )
    result.assert_outcomes(errors=0, failed=0, passed=0)
    result.stderr.fnmatch_lines(
        ["*test_ones_gpu: asks for min=300, and its sibling*test_ones_cpu for min=3; ask once*"]
    )


@pytest.mark.parametrize("where", ["class", "method"])
def test_a_unittests_own_skip_keeps_its_own_reason(suite, where):
    decorator = "@unittest.skip('no card in this machine')"
    result, records = suite(
        f"""
{decorator if where == "class" else ""}
class TestIt(unittest.TestCase):
    @pytest.mark.speedup(pair="ones")
    def test_ones_cpu(self):
        conftest.numpy.ones(3)

    @pytest.mark.speedup(pair="ones", min=3)
    {decorator}
    def test_ones_gpu(self):
        conftest.cupy.ones(3)
""",
        "--gpuperf-gpu=none",
    )
    result.assert_outcomes(skipped=2) if where == "class" else result.assert_outcomes(passed=1, skipped=1)
    assert records["TestIt::test_ones_gpu"]["reason"] == "no card in this machine"


@pytest.mark.parametrize(("least", "outcome"), [(3, {"passed": 2}), (300, {"passed": 1, "failed": 1})])
def test_tests_of_their_own_are_joined_by_a_name(suite, least, outcome):
    result, records = suite(
        f"""
class TestIt(unittest.TestCase):
    def setUp(self):
        self.n = 3

    @pytest.mark.speedup(pair="ones", min={least})
    def test_ones_gpu(self):
        conftest.cupy.ones(self.n)

    @pytest.mark.speedup(pair="ones")
    def test_ones_cpu(self):
        conftest.numpy.ones(self.n)
"""
    )
    result.assert_outcomes(**outcome)
    assert [*records] == ["TestIt::test_ones_cpu", "TestIt::test_ones_gpu"]
    assert records["TestIt::test_ones_gpu"]["speedup"]["value"] == PASSED
    assert records["TestIt::test_ones_gpu"]["scope"] == "body"


def test_a_pair_may_cross_files_and_say_its_devices(suite, pytester):
    pytester.makepyfile(
        test_a="""
        import pytest, conftest

        @pytest.mark.parametrize("n", [3, 4])
        @pytest.mark.speedup(pair="ones", device="cupy", min=3)
        def test_fast(n):
            conftest.cupy.ones(n)
        """,
        test_b="""
        import pytest, conftest

        @pytest.mark.parametrize("n", [3, 4])
        @pytest.mark.speedup(pair="ones", device="numpy")
        def test_slow(n):
            conftest.numpy.ones(n)
        """,
    )
    result, records = suite("")
    result.assert_outcomes(passed=4)
    assert [record["status"] for record in records.values()] == ["recorded", "passed", "recorded", "passed"]
    assert records["test_a.py::test_fast[4]"]["pairing"]["partner"] == "test_b.py::test_slow[4]"


def test_classes_that_inherit_a_test_and_name_their_library_are_siblings(suite):
    result, records = suite(
        """
class Base:
    @pytest.mark.speedup(min=3)
    def test_ones(self):
        self.xp.ones(3)

class TestCupy(Base):
    xp = conftest.cupy

class TestNumpy(Base):
    xp = conftest.numpy
"""
    )
    result.assert_outcomes(passed=2)
    assert records["TestCupy::test_ones"]["pairing"]["partner"] == "test_it.py::TestNumpy::test_ones"


def test_a_side_of_a_pair_that_nobody_can_tell_is_an_error(suite):
    result, _ = suite("@pytest.mark.speedup(pair='ones')\ndef test_ones():\n    pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*which side of pair='ones' is it?*device='gpu' in the marker*"])


def test_two_siblings_on_one_device_are_an_error(suite):
    result, _ = suite(
        """
@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("xp", ["numpy", "cupy", "cupy"])
def test_ones(xp):
    pass
"""
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*test_ones[[]cupy1]: works on the same GPU cupy as its sibling *test_ones[[]cupy0]*"]
    )


def test_siblings_that_ask_for_different_things_are_an_error(suite):
    result, _ = suite(
        """
MARKED = [pytest.param(name, marks=pytest.mark.speedup(min=n)) for n, name in ((2, "numpy"), (3, "cupy"))]

@pytest.mark.parametrize("xp", MARKED)
def test_ones(xp):
    pass
"""
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*test_ones[[]cupy]: asks for min=3, and its sibling*test_ones[[]numpy] for min=2*"]
    )


BROKEN = """
@pytest.mark.speedup(min=3)
def test_ones(xp):
    if xp.__name__ == "{0}":
        {1}
    xp.ones(3)
"""


@pytest.mark.parametrize(
    ("how", "outcome", "status", "reason"),
    [
        ("pytest.skip('not today')", {"skipped": 2}, "skipped", "its CPU sibling was skipped: not today"),
        ("assert 0", {"failed": 2}, "error", "*its CPU sibling *test_ones[[]numpy] ended as error: Assert*"),
    ],
    ids=["skipped", "failed"],
)
def test_a_gpu_sibling_says_what_became_of_its_cpu_sibling(suite, how, outcome, status, reason):
    result, records = suite(BROKEN.format("numpy", how))
    result.assert_outcomes(**outcome)
    found = records["test_ones[cupy]"]
    assert (found["status"], found["speedup"]) == (status, None)
    result.stdout.fnmatch_lines([f"*{part}*" for part in reason.split("*") if part])


@pytest.mark.parametrize("how", ["pytest.skip('not today')", "assert 0"])
def test_a_cpu_sibling_says_what_became_of_its_gpu_sibling(suite, how):
    _, records = suite(BROKEN.format("array_api_compat.cupy", how))
    (note,) = [note for note in records["test_ones[numpy]"]["notes"] if "sibling" in note]
    assert note.startswith("its GPU sibling test_it.py::test_ones[cupy] was ")
    assert records["test_ones[numpy]"]["status"] == "recorded"


def test_a_deselected_sibling_is_named(suite):
    result, records = suite("@pytest.mark.speedup(min=3)\ndef test_ones(xp):\n    xp.ones(3)\n", "-k", "cupy")
    result.assert_outcomes(failed=1, deselected=1)
    assert (
        "its CPU sibling test_it.py::test_ones[numpy] was deselected" in records["test_ones[cupy]"]["reason"]
    )
    result, records = suite(
        "@pytest.mark.speedup(min=3)\ndef test_ones(xp):\n    xp.ones(3)\n", "-k", "numpy"
    )
    result.assert_outcomes(passed=1, deselected=1)
    (note,) = [note for note in records["test_ones[numpy]"]["notes"] if "sibling" in note]
    assert "was skipped: deselected" in note


@pytest.mark.parametrize("option", ["--lf", "--sw"])
def test_a_gpu_sibling_that_is_run_again_brings_its_cpu_sibling_along(suite, option):
    source = (
        "@pytest.mark.speedup(min={0})\ndef test_ones(xp):\n    xp.ones(3)\n\ndef test_other():\n    pass\n"
    )
    result, _ = suite(source.format(300), "--sw" if option == "--sw" else "-q")
    result.assert_outcomes(passed=2 if option == "--lf" else 1, failed=1)
    result, records = suite(source.format(3), option)
    assert records["test_ones[cupy]"]["status"] == "passed"
    assert records["test_ones[numpy]"]["status"] == "recorded"


def test_the_suites_own_order_is_kept_but_for_gpu_siblings(suite):
    result, _ = suite(
        """
@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.parametrize("xp", ["cupy", "numpy"])
@pytest.mark.speedup
def test_a(xp, n):
    conftest.LIBRARIES[xp].ones(n)

def test_b():
    pass
""",
        "-v",
    )
    ran = [line.split()[0].rpartition("::")[2] for line in result.outlines if "PASSED" in line]
    assert ran == ["test_a[numpy-3]", "test_a[cupy-3]", "test_a[numpy-4]", "test_a[cupy-4]", "test_b"]


SKIPPED = """
@pytest.mark.speedup(min=3)
def test_ones(xp):
    if xp is conftest.cupy:
        pytest.skip("not on this runner")
    xp.ones(3)
"""


def test_a_required_gpu_that_no_sibling_was_measured_on_fails_the_run(suite):
    result, _ = suite(SKIPPED, "--gpuperf-require-gpu")
    result.assert_outcomes(passed=1, skipped=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["FAILED: a GPU is required *, and none of 2 tests that ask for a speedup *"])


@pytest.mark.parametrize(
    "more",
    ["", "\n@pytest.mark.speedup(min=3)\ndef test_more(xp):\n    xp.ones(3)\n"],
    ids=["not required", "one"],
)
def test_a_suite_may_skip_some_of_its_gpu_tests(suite, more):
    result, _ = suite(SKIPPED + more, *(["--gpuperf-require-gpu"] if more else []))
    assert result.ret == pytest.ExitCode.OK


def test_groups_of_pytest_xdist_are_no_part_of_a_tests_name_in_the_report(suite):
    source = """
@pytest.mark.xdist_group("mine")
@pytest.mark.speedup(min=3)
def test_ones(xp):
    xp.ones(3)
"""
    result, records = suite(source, "-n2", "--dist=loadgroup")
    result.assert_outcomes(passed=2)
    assert {nodeid: record["status"] for nodeid, record in records.items()} == {
        "test_ones[numpy]": "recorded",
        "test_ones[cupy]": "passed",
    }


@pytest.mark.parametrize("option", ["", "--gpuperf-require-gpu"])
def test_a_demand_on_a_cpu_that_no_gpu_is_compared_with_fails(suite, option):
    source = """
@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("xp", ["numpy"])
def test_lonely(xp):
    conftest.LIBRARIES[xp].ones(3)

@pytest.mark.speedup(min=3)
def test_ones(xp):
    xp.ones(3)
"""
    result, records = suite(source, *filter(None, [option]))
    result.assert_outcomes(passed=2, errors=1)
    assert "none is its GPU sibling" in records["test_lonely[numpy]"]["reason"]


def test_without_a_gpu_such_a_demand_is_noted(suite):
    source = """
@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("xp", ["numpy"])
def test_lonely(xp):
    conftest.LIBRARIES[xp].ones(3)
"""
    result, records = suite(source, "--gpuperf-gpu=none")
    result.assert_outcomes(passed=1)
    assert any("none is its GPU sibling" in note for note in records["test_lonely[numpy]"]["notes"])


def test_variants_are_compared_with_their_own(suite):
    _, records = suite(
        """
@pytest.mark.speedup
@pytest.mark.parametrize("backend", ["numpy:b", "numpy:a", "cupy:a", "cupy:b"])
def test_ones(backend):
    conftest.LIBRARIES[backend.partition(":")[0]].ones(3)
"""
    )
    partners = {
        nodeid: record["pairing"]["partner"] for nodeid, record in records.items() if "cupy" in nodeid
    }
    assert {nodeid[-2]: partner and partner[-2] for nodeid, partner in partners.items()} == {
        "a": "a",
        "b": "b",
    }


def test_an_expected_failure_of_a_unittest_stays_one(suite):
    result, _ = suite(
        """
class TestIt(unittest.TestCase):
    @pytest.mark.speedup(pair="ones")
    def test_ones_cpu(self):
        conftest.numpy.ones(3)

    @unittest.expectedFailure
    @pytest.mark.speedup(pair="ones")
    def test_ones_gpu(self):
        raise ValueError("known")
"""
    )
    result.assert_outcomes(passed=1, xfailed=1)


def test_classes_that_differ_in_more_than_their_library_are_no_siblings(suite):
    result, records = suite(
        """
class Base:
    @pytest.mark.speedup
    @pytest.mark.parametrize("m", [1, 2])
    def test_ones(self, m):
        self.xp.ones(self.n)

class TestNumpy(Base):
    xp, n = conftest.numpy, 4

class TestCupy(Base):
    xp, n = conftest.cupy, 1
"""
    )
    result.assert_outcomes(passed=4)
    assert [record["pairing"]["partner"] for record in records.values()] == [None] * 4


def test_stepwise_starts_again_at_a_failed_gpu_sibling(suite):
    source = """
@pytest.mark.speedup
def test_a(xp):
    assert xp is conftest.numpy or {0}
    xp.ones(3)

def test_b():
    pass
"""
    suite(source.format("False"), "--sw")
    result, _ = suite(source.format("True"), "--sw", "-v")
    ran = [line.split()[0].rpartition("::")[2] for line in result.outlines if "PASSED" in line]
    assert ran == ["test_a[numpy]", "test_a[cupy]", "test_b"]


def test_one_test_works_on_one_device_or_through_gpuperf_both(suite):
    result, _ = suite(
        """
@pytest.mark.speedup
def test_ones(gpuperf, xp):
    gpuperf.both(lambda xp: xp.ones(3))
"""
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*test_ones[[]numpy]: it works on one device, and gpuperf.both on two*"])


def test_a_second_marker_that_asks_for_something_else_is_an_error(suite, pytester):
    pytester.makepyfile(
        later="""
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.speedup(min=1000))
        """
    )
    pytester.syspathinsert()
    result, _ = suite("@pytest.mark.speedup\ndef test_ones(xp):\n    xp.ones(3)\n", "-p", "later")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*test_ones[[]cupy]: has 2 speedup markers of its own; keep one*"])


def test_to_time_all_tests_stops_at_none_of_them(suite):
    result, records = suite(
        """
@pytest.mark.parametrize("backend", ["torch-cpu", "jax-cpu", "cupy"])
def test_ones(backend):
    pass

def test_two(xp):
    xp.ones(3)
""",
        "--gpuperf-all",
    )
    result.assert_outcomes(passed=5)
    assert "passed" not in {record["status"] for record in records.values()}


def test_a_pattern_leaves_tests_alone_that_have_no_sibling(suite):
    result, records = suite(
        """
class TestCupy:
    xp = conftest.cupy

    def test_alone(self):
        self.xp.ones(3)

def test_two(xp):
    xp.ones(3)
""",
        ini="gpuperf_speedup = test_it.py::* min=3",
    )
    result.assert_outcomes(passed=3)
    assert {*records} == {"test_two[numpy]", "test_two[cupy]"}
