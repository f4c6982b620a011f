"""Variants: tests of a suite's own that differ in their device only, in the shapes that suites have."""

import re
import sys
from fnmatch import fnmatch
from functools import partial

import pytest

WRAPPED = """
    cupy.__name__ = "array_api_compat.cupy"
"""


@pytest.fixture
def suite(suite):
    """Run a suite whose CuPy is array-api-compat's."""
    return partial(suite, conftest=WRAPPED)


VALUES = {
    "modules": ("xp", "[conftest.numpy, conftest.cupy]", "{0}"),
    "names of libraries": ("module", "['numpy', 'cupy']", "conftest.LIBRARIES[{0}]"),
    "names of devices": ("device", "['cpu', 'cuda']", "conftest.LIBRARIES[{0}]"),
}


def test_items_that_differ_in_a_device_like_parameter_are_variants_whatever_its_value(suite):
    sources = (
        f"""
@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("n", [4, 8])
@pytest.mark.parametrize("{name}", {listed}, ids=["a", "b"])
def test_{what.replace(" ", "_")}({name}, n):
    {library.format(name)}.ones(n)
"""
        for what, (name, listed, library) in VALUES.items()
    )
    found = suite("".join(sources))
    found.ended(passed=12)
    assert {record["scope"] for record in found.records.values()} == {"body"}
    for what in VALUES:
        test = f"test_{what.replace(' ', '_')}"
        assert [found.statuses[f"{test}[a-{n}]"] for n in (4, 8)] == ["recorded", "recorded"]
        assert [10, 10] == [found.speedup(f"{test}[b-{n}]") for n in (4, 8)]
        assert found.records[f"{test}[b-8]"]["pairing"] == {
            "kind": "gpu",
            "library": "simulated",
            "partner": f"test_it.py::{test}[a-8]",
        }


def test_a_parametrized_fixture_of_the_suite_makes_variants(suite):
    found = suite("@pytest.mark.speedup(min=3)\ndef test_ones(xp):\n    return lambda: xp.ones(3)\n")
    found.ended(passed=2)
    assert 10 == found.speedup("test_ones[cupy]")
    assert found.records["test_ones[cupy]"]["scope"] == "call"


def test_several_device_like_parameters_work_together(suite):
    found = suite(
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
    found.ended(passed=4)
    partners = {nodeid: record["pairing"]["partner"] for nodeid, record in found.records.items()}
    assert partners["test_ones[cupy-cuda-float64]"] == "test_it.py::test_ones[numpy-None-float64]"
    assert partners["test_ones[cupy-None-float32]"] == "test_it.py::test_ones[numpy-None-float32]"


def test_the_ini_file_names_other_parameters(suite):
    source = """
@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("engine", ["numpy", "cupy"])
def test_ones(engine):
    conftest.LIBRARIES[engine].ones(3)
"""
    found = suite(source)
    found.result.stdout.fnmatch_lines(["a speedup test must use a device: *"])
    found = suite(source, ini="gpuperf_device_params = engine")
    found.ended(passed=2)
    assert found.statuses["test_ones[cupy]"] == "passed"


UNKNOWN = ".* is not a known device.*gpuperf_device_values.*gpuperf_device_params"
NO_VARIANTS = [
    ("backend", "[lambda: 0, lambda: 1]", f"backend=<lambda>{UNKNOWN}"),
    ("backend", '["fftw", 3]', f"backend='fftw'{UNKNOWN}"),
    ("backend", "[object()]", f"backend=object{UNKNOWN}"),
    ("backend", '["numpy", pytest.param("fftw", marks=speedup(device="fftw"))]', f"device='fftw'{UNKNOWN}"),
    ("xp, device", '[("numpy", "cuda")]', r"device='cuda', xp='numpy': numpy has no GPU"),
    (
        "xp",
        '["numpy", "cupy", "cupy"]',
        r"test_ones\[cupy1\]: uses the same device \(GPU cupy\) as its variant .*test_ones\[cupy0\]",
    ),
    (
        "xp",
        '[pytest.param("numpy", marks=speedup(min=2)), pytest.param("cupy", marks=speedup(min=3))]',
        r"test_ones\[cupy\]: requires min=3, but its CPU variant.*test_ones\[numpy\] min=2",
    ),
]
ALONE = """
@speedup(pair='ones')
def test_ones():
    pass
"""


def test_what_makes_no_variants_is_an_error_that_names_the_value_and_the_key(marker_errors):
    cases = []
    for names, values, expected in NO_VARIANTS:
        marker = "" if "marks" in values else "@speedup(min=3)\n"
        test = f'@pytest.mark.parametrize("{names}", {values})\ndef test_ones({names}): pass'
        cases.append((marker + test, expected))
    side = "it is unknown whether this is the CPU or the GPU test of pair='ones'; pass .*device='gpu'"
    cases.append((ALONE, side))
    said = marker_errors(*(f"import pytest\nspeedup = pytest.mark.speedup\n{test}" for test, _ in cases))
    for (source, expected), found in zip(cases, said, strict=True):
        assert found.startswith("test_ones"), source
        assert re.search(expected, found), source


OTHERS = """
class TorchBackend:
    pass

class Named:
    def __init__(self, name):
        self.__name__ = name

@pytest.mark.offload_threshold("n")
@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.parametrize("backend", ["dask", Named("cupy"), "sparse", TorchBackend(), Named("numpy")])
@pytest.mark.speedup(min=3)
def test_ones(backend, n):
    name = getattr(backend, "__name__", None)
    if name:
        conftest.LIBRARIES[name].ones(n)

@pytest.mark.parametrize("nx", [object(), object()], ids=["numpy", "cupy"])
@pytest.mark.speedup(min=3)
def test_of_id(nx, request):
    conftest.LIBRARIES.get(request.node.callspec.id, conftest.cupy).ones(3)
"""


@pytest.mark.parametrize("options", [[], ["-n1"]], ids=" ".join)
def test_values_that_no_backend_knows_are_left_alone_and_named_once(suite, options):
    if options:
        pytest.importorskip("xdist", reason="the extra `test` has pytest-xdist")
    found = suite(OTHERS, "-Werror", "--deselect=test_it.py::test_ones[dask-3]", *options)
    found.ended(passed=11, deselected=0 if options else 1)
    assert {"test_ones[cupy-3]", "test_of_id[cupy]"} < {*found.records}
    assert not [name for name in found.records if name.startswith(("test_ones[dask", "test_ones[backend3"))]
    assert found.written["unknown_values"] == [
        {"parameter": "backend", "value": value, "tests": tests}
        for value, tests in [("'dask'", 1), ("'sparse'", 2), ("TorchBackend", 2)]
    ]
    found.says(
        "left alone: 5 tests on devices that are not known (backend='dask',",
        "backend='sparse', backend=TorchBackend); gpuperf_device_values can map them",
    )


TYPO = """
@pytest.mark.parametrize("xp", ["numpy", "cupy", "cuppy"])
@pytest.mark.speedup({limit})
def test_ones(xp):
    if xp in conftest.LIBRARIES:
        conftest.LIBRARIES[xp].ones(3)
"""


@pytest.mark.parametrize(
    ("limit", "ending"),
    [("min=1e-9", {"errors": 1, "passed": 2}), ("", {"passed": 3})],
    ids=["limit", "bare"],
)
def test_where_a_gpu_is_required_a_limit_on_an_unknown_device_is_an_error(suite, limit, ending):
    found = suite(TYPO.format(limit=limit), "--gpuperf-require-gpu")
    found.ended(**ending)
    if limit:
        found.result.stdout.fnmatch_lines(["*test_ones[[]cuppy]: xp='cuppy' is not a known *left alone*"])


def test_the_ini_file_maps_a_suites_own_values_to_devices(suite):
    mapped = "TorchBackend=cupy:1 dask=cupy:2 sparse=cupy:3 fast=cupy"
    found = suite(
        OTHERS.replace('"numpy", "cupy"]', '"numpy", "fast"]'), ini=f"gpuperf_device_values = {mapped}"
    )
    assert found.written["unknown_values"] == []
    assert len(found.records) == 12


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("TorchBackend=toch", "'toch' is not a known device or array library"),
        ("TorchBackend", "'TorchBackend' is not VALUE=DEVICE, e.g. TorchBackend=torch"),
    ],
)
def test_a_value_that_is_mapped_to_no_device_is_a_usage_error(suite, entry, said):
    found = suite(OTHERS, ini=f"gpuperf_device_values = {entry}")
    assert pytest.ExitCode.USAGE_ERROR == found.result.ret
    assert f"gpuperf_device_values: {said}" in found.result.stderr.str()


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
    found = suite(
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
    found.ended(passed=4)
    assert found.records["test_ones[cupy]"]["pairing"]["partner"] == "test_it.py::test_ones[numpy]"
    assert found.records["test_ones[mylib:gpu]"]["pairing"]["partner"] == "test_it.py::test_ones[mylib:cpu]"
    assert 10 == found.speedup("test_ones[cupy]")
    assert 5 == found.speedup("test_ones[mylib:gpu]")


def test_the_closest_marker_wins_and_one_on_a_parameter_takes_its_variant_along(suite):
    found = suite(
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
    found.ended(passed=6)
    limits = {nodeid: record["demand"]["min"] for nodeid, record in found.records.items() if "cupy" in nodeid}
    assert limits == {
        "TestIt::test_class[cupy]": 3,
        "TestIt::test_method[cupy]": 4,
        "TestOther::test_own[cupy]": 6,
    }


def test_a_marker_on_a_parameter_takes_its_variant_along(suite):
    found = suite(
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
    found.ended(passed=6)
    assert len(found.records) == 4
    assert found.records["test_ones[xp1]"]["demand"]["min"] == 5
    assert found.statuses["test_ones[xp1]"] == "passed"
    assert 10 == found.speedup("test_sizes[xp1-4]")


def test_a_unittest_is_timed_as_a_whole_body_between_set_up_and_tear_down(suite):
    found = suite(
        """
class TestIt(unittest.TestCase):
    def setUp(self):
        self.n = 3

    @pytest.mark.speedup(pair="ones", min=3)
    def test_ones_cpu(self):
        with self.subTest(n=self.n):
            conftest.numpy.ones(self.n)

    @pytest.mark.speedup(pair="ones", min=3)
    def test_ones_gpu(self):
        conftest.cupy.ones(self.n)

    def tearDown(self):
        assert self.n == 3
"""
    )
    found.ended(passed=2)
    assert 10 == found.speedup("TestIt::test_ones_gpu")
    assert "body" == found.records["TestIt::test_ones_gpu"]["scope"]


def test_variants_that_ask_for_different_speedups_are_told_to_ask_once(suite):
    found = suite(
        """
@pytest.mark.speedup(pair="ones", min=3)
def test_ones_cpu():
    conftest.numpy.ones(3)

@pytest.mark.speedup(pair="ones", min=300)
def test_ones_gpu():
    conftest.cupy.ones(3)
"""
    )
    found.ended(errors=1, passed=1)
    found.says(
        "test_ones_gpu: requires min=300, but its CPU variant*test_ones_cpu min=3; the marker arguments"
    )


def test_a_unittests_own_skip_keeps_its_own_reason(suite):
    skip = "@unittest.skip('no card in this machine')"
    sources = (
        f"""
{skip if where == "Class" else ""}
class Test{where}(unittest.TestCase):
    @pytest.mark.speedup(pair="{where}")
    def test_ones_cpu(self):
        conftest.numpy.ones(3)

    @pytest.mark.speedup(pair="{where}", min=3)
    {skip}
    def test_ones_gpu(self):
        conftest.cupy.ones(3)
"""
        for where in ("Class", "Method")
    )
    found = suite("".join(sources), "--gpuperf-gpu=none")
    found.ended(passed=1, skipped=3)
    for where in ("Class", "Method"):
        assert found.records[f"Test{where}::test_ones_gpu"]["reason"] == "no card in this machine"


def test_tests_of_their_own_are_joined_by_a_name(suite):
    sources = (
        f"""
class Test{least}(unittest.TestCase):
    def setUp(self):
        self.n = 3

    @pytest.mark.speedup(pair="{least}", min={least})
    def test_ones_gpu(self):
        conftest.cupy.ones(self.n)

    @pytest.mark.speedup(pair="{least}")
    def test_ones_cpu(self):
        conftest.numpy.ones(self.n)
"""
        for least in (3, 300)
    )
    found = suite("".join(sources))
    found.ended(passed=3, failed=1)
    assert [(name, record["status"]) for name, record in found.records.items()] == [
        ("Test3::test_ones_cpu", "recorded"),
        ("Test3::test_ones_gpu", "passed"),
        ("Test300::test_ones_cpu", "recorded"),
        ("Test300::test_ones_gpu", "failed"),
    ]
    for gpu in ("Test3::test_ones_gpu", "Test300::test_ones_gpu"):
        assert 10 == found.speedup(gpu)
        assert found.records[gpu]["scope"] == "body"


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
    found = suite("")
    found.ended(passed=4)
    assert [*found.statuses.values()] == ["passed", "passed", "recorded", "recorded"]
    assert found.records["test_a.py::test_fast[4]"]["pairing"]["partner"] == "test_b.py::test_slow[4]"


def test_classes_that_inherit_a_test_and_name_their_library_are_variants(suite):
    found = suite(
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
    found.ended(passed=2)
    assert found.records["TestCupy::test_ones"]["pairing"]["partner"] == "test_it.py::TestNumpy::test_ones"


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
        ("pytest.skip('not today')", {"skipped": 2}, "skipped", "its CPU variant was skipped: not today"),
        ("assert 0", {"failed": 2}, "error", "*its CPU variant *test_ones[[]numpy] ended as error: Assert*"),
    ],
    ids=["skipped", "failed"],
)
def test_a_gpu_variant_says_what_became_of_its_cpu_variant(suite, how, outcome, status, reason):
    found = suite(BROKEN.format("numpy", how))
    found.ended(**outcome)
    record = found.records["test_ones[cupy]"]
    assert (record["status"], record["speedup"]) == (status, None)
    assert (record["reason_code"] == "cpu_variant_skipped") == (status == "skipped")
    found.says(reason)


def test_a_gpu_variant_that_finds_no_gpu_is_skipped_with_that_code(suite):
    source = "@pytest.mark.speedup\ndef test_ones(xp):\n    xp.ones(3)\n"
    record = suite(source, "--gpuperf-gpu=none").records["test_ones[cupy]"]
    assert (record["status"], record["reason_code"]) == ("skipped", "no_gpu")


@pytest.mark.parametrize("source", ["", "@pytest.mark.speedup(min=2)\n"], ids=["unmarked", "marked"])
def test_a_library_that_is_not_installed_skips_its_tests_with_the_marker_as_without_it(
    suite, monkeypatch, source
):
    missing = ("torch", "jax", "cupy")
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    source += """@pytest.mark.parametrize("backend", ["numpy", "torch", "jax", "cupy"])
def test_ones(backend):
    pytest.importorskip(backend).ones(3)
"""
    found = suite(source, "--gpuperf-gpu=auto", conftest="\n    del pytest_gpuperf_devices\n")
    found.ended(passed=1, skipped=3)
    codes = {name: record["reason_code"] for name, record in found.records.items()}
    expected = {"numpy": None, "torch": "no_library", "jax": "no_library", "cupy": "no_gpu"}
    assert codes == ({f"test_ones[{name}]": code for name, code in expected.items()} if codes else {})


def test_a_test_skips_where_the_library_that_the_run_names_is_not_installed(suite, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    source = "@pytest.mark.speedup(min=2)\ndef test_ones(device):\n    device.xp.ones(3)\n"
    suite(source + "def test_cpu(cpu): pass", ours=["--gpuperf-gpu=torch"]).ended(skipped=2)
    suite(source, "--gpuperf-off", ours=["--gpuperf-gpu=torch"]).ended(skipped=1)


@pytest.mark.parametrize("how", ["pytest.skip('not today')", "assert 0"])
def test_a_cpu_variant_says_what_became_of_its_gpu_variant(suite, how):
    found = suite(BROKEN.format("array_api_compat.cupy", how))
    (note,) = [note for note in found.records["test_ones[numpy]"]["notes"] if note["code"] == "no_partner"]
    assert note["text"].startswith("its GPU variant test_it.py::test_ones[cupy] was ")
    assert found.statuses["test_ones[numpy]"] == "recorded"


FAILING_AFTERWARDS = """
@pytest.fixture
def clean(xp):
    yield
    assert xp is conftest.{other}, "not clean"

@pytest.mark.speedup(min=3)
def test_fixture(xp, clean):
    xp.ones(3)

class TestUnit(unittest.TestCase):
    @pytest.mark.speedup(pair="ones", min=3)
    def test_numpy(self):
        conftest.numpy.ones(3)

    @pytest.mark.speedup(pair="ones", min=3)
    def test_cupy(self):
        conftest.cupy.ones(3)

    def tearDown(self):
        assert self._testMethodName == "test_{other}", "not clean"
"""
LINES = FAILING_AFTERWARDS.splitlines()
FIXTURES = [f"test_fixture[{library}]" for library in ("numpy", "cupy")]
UNITS = [f"TestUnit::test_{library}" for library in ("numpy", "cupy")]


def test_a_cpu_variant_that_fails_in_its_teardown_leaves_nothing_to_compare_with(suite):
    found = suite(FAILING_AFTERWARDS.format(other="cupy"))
    found.ended(passed=1, failed=3, errors=1)
    for numpy, cupy in (FIXTURES, UNITS):
        assert ["error", "error"] == [found.records[name]["status"] for name in (numpy, cupy)]
        assert found.records[numpy]["reason"].endswith("AssertionError: not clean")
        assert f"its CPU variant test_it.py::{numpy} ended as error: " in found.records[cupy]["reason"]
        assert (None, None) == (found.records[cupy]["speedup"], found.records[cupy]["cpu"])


def test_a_gpu_variant_that_fails_in_its_teardown_has_not_passed(suite):
    found = suite(FAILING_AFTERWARDS.format(other="numpy"))
    found.ended(passed=3, failed=1, errors=1)
    for numpy, cupy in (FIXTURES, UNITS):
        assert ["recorded", "error"] == [found.records[name]["status"] for name in (numpy, cupy)]
        assert found.records[cupy]["reason"].endswith("AssertionError: not clean")


def test_a_skip_in_a_teardown_changes_no_record(suite):
    skips = (line.partition("assert ")[0] + "pytest.skip()" * ("not clean" in line) for line in LINES)
    found = suite("\n".join(skips))
    for numpy, cupy in (FIXTURES, UNITS):
        assert ["recorded", "passed"] == [found.records[name]["status"] for name in (numpy, cupy)]


def test_a_doubt_that_fails_a_unittest_stays_a_doubt(suite):
    source = FAILING_AFTERWARDS.partition("def tearDown")[0].replace("min=3", "min=9.95")
    found = suite(source.format(other="cupy"), "--gpuperf-fail=doubt")
    assert "inconclusive" == found.records["TestUnit::test_cupy"]["status"]


def test_a_cpu_variant_with_a_failed_subtest_leaves_nothing_to_compare_with(suite):
    pytest.importorskip("_pytest.subtests", reason="pytest 9 has subtests")
    found = suite(
        """
@pytest.mark.speedup(min=3)
def test_ones(xp, subtests):
    with subtests.test("wrong"):
        assert xp is conftest.cupy
    return lambda: xp.ones(3)
"""
    )
    assert found.records["test_ones[numpy]"]["reason"].startswith("a subtest failed: AssertionError: ")
    assert "test_ones[numpy] ended as error: a subtest failed: " in found.records["test_ones[cupy]"]["reason"]


def test_a_deselected_gpu_variant_is_named(suite):
    found = suite("@pytest.mark.speedup(min=3)\ndef test_ones(xp):\n    xp.ones(3)\n", "-k", "numpy")
    found.ended(passed=1, deselected=1)
    (note,) = [note for note in found.records["test_ones[numpy]"]["notes"] if note["code"] == "no_partner"]
    assert "was skipped: deselected" in note["text"]
    assert found.records["test_ones[cupy]"]["reason_code"] == "deselected"


FAR = """
@pytest.fixture(scope="module")
def data():
    yield 3
    {teardown}

@pytest.mark.speedup
def test_first(data, xp):
    xp.ones(data)

@pytest.mark.speedup(pair="ones", device="cupy", min=3)
def test_fast(data):
    conftest.cupy.ones(data)

def test_last(data):
    assert data == 3
"""


@pytest.mark.parametrize(
    ("teardown", "ending"), [("pass", {"passed": 5}), ("1 / 0", {"passed": 4, "errors": 2})]
)
def test_a_cpu_variant_in_another_module_runs_without_the_fixtures_of_this_one(
    suite, pytester, teardown, ending
):
    pytester.makepyfile(
        test_other="""
        import pytest, conftest

        @pytest.fixture(scope="module", autouse=True)
        def alone(request):
            request.session.alone = True

        @pytest.mark.speedup(pair="ones", device="numpy")
        def test_slow(request):
            assert request.session.alone
            conftest.numpy.ones(3)
        """
    )
    found = suite(FAR.format(teardown=teardown), "test_it.py", "test_other.py")
    found.ended(**ending)
    if teardown == "pass":
        assert 10 == found.speedup("test_fast")
    else:
        assert "division by zero" in found.records["test_fast"]["reason"]


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("pytest.skip('not today')", "its CPU variant was skipped: not today"),
        ("assert 0", "nothing to compare with: its CPU variant *test_ones[[]numpy] ended as error: Assert*"),
        ("pytest.xfail('a bad day')", "its CPU variant was skipped: a bad day"),
    ],
)
def test_a_gpu_variant_alone_says_what_became_of_its_cpu_variant(suite, how, reason):
    found = suite(BROKEN.format("numpy", how), "-k", "cupy")
    (record,) = [record for name, record in found.records.items() if "cupy" in name]
    assert fnmatch(record["reason"], f"{reason}*")
    assert 0 == found.result.parseoutcomes().get("passed", 0)
    if "assert" in how:
        found.says("- CPU variant test_it.py::test_ones[[]numpy], call -", "E*assert 0")


def test_a_cpu_variant_runs_for_its_gpu_variant_within_what_plugins_put_around_tests(suite):
    source = """
import warnings

@pytest.mark.speedup(min=3)
@pytest.mark.parametrize(
    "xp", ["cupy", pytest.param("numpy", marks=pytest.mark.filterwarnings("error:slow"))]
)
def test_ones(xp):
    warnings.warn("slow") if xp == "numpy" else None
    conftest.LIBRARIES[xp].ones(3)
"""
    found = suite(source, "-k", "cupy")
    found.ended(failed=1, deselected=1)
    assert "ended as error: UserWarning: slow" in found.records["test_ones[cupy]"]["reason"]


def test_a_run_that_is_interrupted_in_such_a_cpu_variant_has_no_record_of_it(suite):
    source = """
@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("xp", ["cupy", "numpy"])
def test_ones(xp):
    if xp == "numpy":
        raise KeyboardInterrupt
    conftest.LIBRARIES[xp].ones(3)
"""
    found = suite(source, "-k", "cupy", interrupts=True)
    assert pytest.ExitCode.INTERRUPTED == found.result.ret
    assert {"skipped"} == {*found.statuses.values()}


def test_a_gpu_variant_says_that_its_cpu_variants_marker_is_wrong(suite):
    found = suite(
        """
@pytest.mark.parametrize(
    "xp",
    [
        pytest.param("numpy", marks=pytest.mark.speedup(mim=3)),
        pytest.param("cupy", marks=pytest.mark.speedup(min=3)),
    ],
)
def test_ones(xp):
    conftest.LIBRARIES[xp].ones(3)
"""
    )
    found.ended(errors=1, failed=1)
    reason = found.records["test_ones[cupy]"]["reason"]
    assert (
        "its CPU variant test_it.py::test_ones[numpy] ended as error: @pytest.mark.speedup: has no " in reason
    )


@pytest.mark.parametrize("option", ["--lf", "--sw"])
def test_a_gpu_variant_that_is_run_again_brings_its_cpu_variant_along(suite, option):
    source = (
        "@pytest.mark.speedup(min={0})\ndef test_ones(xp):\n    xp.ones(3)\n\ndef test_other():\n    pass\n"
    )
    found = suite(source.format(300), "--sw" if option == "--sw" else "-q")
    found.ended(passed=2 if option == "--lf" else 1, failed=1)
    found = suite(source.format(3), option)
    assert found.statuses["test_ones[cupy]"] == "passed"
    assert found.statuses.get("test_ones[numpy]") in (None, "skipped")


def test_the_suites_own_order_is_kept(suite):
    found = suite(
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
    ran = [line.split()[0].rpartition("::")[2] for line in found.result.outlines if "PASSED" in line]
    assert ran == ["test_a[cupy-3]", "test_a[cupy-4]", "test_a[numpy-3]", "test_a[numpy-4]", "test_b"]
    assert {"recorded"} == {*found.statuses.values()}
    assert 10 == found.speedup("test_a[cupy-4]")


SKIPPED = """
@pytest.mark.speedup(min=3)
def test_ones(xp):
    if xp is conftest.cupy:
        pytest.skip("not on this runner")
    xp.ones(3)
"""


def test_a_required_gpu_that_no_variant_was_measured_on_fails_the_run(suite):
    found = suite(SKIPPED, "--gpuperf-require-gpu")
    found.ended(passed=1, skipped=1)
    assert found.result.ret == pytest.ExitCode.TESTS_FAILED
    found.says("FAILED: a GPU is required *, and none of 2 speedup tests was measured on one")


@pytest.mark.parametrize(
    "more",
    ["", "\n@pytest.mark.speedup(min=3)\ndef test_more(xp):\n    xp.ones(3)\n"],
    ids=["not required", "one"],
)
def test_a_suite_may_skip_some_of_its_gpu_tests(suite, more):
    found = suite(SKIPPED + more, *(["--gpuperf-require-gpu"] if more else []))
    assert found.result.ret == pytest.ExitCode.OK


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
    found = suite(source, *filter(None, [option]))
    found.ended(passed=2, errors=1)
    assert "no other variant of it runs on a GPU" in found.records["test_lonely[numpy]"]["reason"]


def test_without_a_gpu_such_a_demand_is_noted(suite):
    source = """
@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("xp", ["numpy"])
def test_lonely(xp):
    conftest.LIBRARIES[xp].ones(3)
"""
    found = suite(source, "--gpuperf-gpu=none")
    found.ended(passed=1)
    assert "no_partner" in [note["code"] for note in found.records["test_lonely[numpy]"]["notes"]]


WITHOUT_GPU = """
    JAX = SimulatedBackend(name="jax", unavailable="JAX sees no GPU")
    JAX._cpu = BACKEND.cpu()

    @pytest.hookimpl(optionalhook=True)
    def pytest_gpuperf_devices():
        return [BACKEND, JAX]
"""


def test_a_variant_whose_library_falls_back_to_the_cpu_is_skipped_with_the_remedy(suite):
    source = """
@pytest.mark.speedup(min=2)
@pytest.mark.parametrize("backend", ["numpy", "jax.numpy"])
def test_ones(backend):
    conftest.numpy.ones(3)

@pytest.mark.speedup(min=2)
@pytest.mark.parametrize("backend", ["jax:cpu"])
def test_on_cpu(backend):
    conftest.numpy.ones(3)

@pytest.mark.speedup
@pytest.mark.parametrize("backend", ["numpy", "jax.numpy"])
def test_without_limits(backend):
    conftest.numpy.ones(3)
"""
    found = suite(source, "--gpuperf-gpu=none", conftest=WITHOUT_GPU)
    found.ended(passed=4, skipped=1)
    record = found.records["test_ones[jax.numpy]"]
    assert ("skipped", "no_gpu") == (record["status"], record["reason_code"])
    assert "try --gpuperf-gpu=jax:cpu" in record["reason"]
    assert record["cpu"] is not None
    suite(source, "--gpuperf-gpu=none", "--gpuperf-require-gpu", conftest=WITHOUT_GPU).ended(
        passed=2, errors=3
    )


def test_variants_are_compared_with_their_own(suite):
    found = suite(
        """
@pytest.mark.speedup
@pytest.mark.parametrize("backend", ["numpy:b", "numpy:a", "cupy:a", "cupy:b"])
def test_ones(backend):
    conftest.LIBRARIES[backend.partition(":")[0]].ones(3)
"""
    )
    partners = {
        nodeid: record["pairing"]["partner"] for nodeid, record in found.records.items() if "cupy" in nodeid
    }
    assert {nodeid[-2]: partner and partner[-2] for nodeid, partner in partners.items()} == {
        "a": "a",
        "b": "b",
    }


def test_an_expected_failure_of_a_unittest_stays_one(suite):
    found = suite(
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
    found.ended(passed=1, xfailed=1)


def test_classes_that_differ_in_more_than_their_library_are_no_variants(suite):
    found = suite(
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
    found.ended(passed=4)
    assert [record["pairing"]["partner"] for record in found.records.values()] == [None] * 4


def test_stepwise_starts_again_at_a_failed_gpu_variant(suite):
    source = """
@pytest.mark.speedup
def test_a(xp):
    assert xp is conftest.numpy or {0}
    xp.ones(3)

def test_b():
    pass
"""
    suite(source.format("False"), "--sw")
    found = suite(source.format("True"), "--sw", "-v")
    ran = [line.split()[0].rpartition("::")[2] for line in found.result.outlines if "PASSED" in line]
    assert ran == ["test_a[cupy]", "test_b"]


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
    found = suite("@pytest.mark.speedup\ndef test_ones(xp):\n    xp.ones(3)\n", "-p", "later")
    found.ended(errors=2)
    found.says("test_ones[[]numpy] *: the test has 2 speedup markers, speedup() and speedup(min=1000); keep")


def test_a_marker_that_a_conftest_adds_to_one_variant_takes_the_other_along(suite, pytester):
    cases = [("cupy", 3, "passed"), ("cupy", 300, "failed"), ("numpy", 3, "passed")]
    pytester.makepyfile(
        later=r"""
        import re
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.offload_threshold("n")) if "ones" in item.name else None
                if found := re.match(r"test_ones_(\w+)_(\d+)\[\1-", item.name):
                    item.add_marker(pytest.mark.speedup(min=int(found[2])))
        """
    )
    pytester.syspathinsert()
    tests = (
        f"""
@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.parametrize("xp", ["cupy", "numpy"])
def test_ones_{marked}_{least}(xp, n):
    conftest.LIBRARIES[xp].ones(n)
"""
        for marked, least, _ in cases
    )
    other = """
@pytest.mark.parametrize("xp", ["cupy", "numpy"])
def test_other(xp):
    pass
"""
    found = suite("".join([*tests, other]), "-p", "later")
    found.ended(passed=12, failed=2)
    assert {
        f"test_ones_{marked}_{least}[{library}-{n}]": "recorded" if library == "numpy" else verdict
        for marked, least, verdict in cases
        for library in ("numpy", "cupy")
        for n in (3, 4)
    } == found.statuses
    size_groups = {record["nodeid"].partition("[")[0] for record in found.records.values()}
    assert size_groups == {record["size_group"]["name"] for record in found.records.values()}


@pytest.mark.parametrize("option", ["--setup-only", "--setup-plan"])
def test_what_runs_no_test_misses_no_variant(suite, option):
    tests = (
        f"""
@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("xp", ["{library}"])
def test_lonely_{library}(xp):
    pass
"""
        for library in ("numpy", "cupy")
    )
    found = suite("".join(tests), option)
    assert found.result.ret == pytest.ExitCode.OK


def test_to_time_all_tests_stops_at_none_of_them(suite):
    found = suite(
        """
@pytest.mark.parametrize("backend", ["torch:cpu", "jax:cpu", "cupy"])
def test_ones(backend):
    pass

def test_two(xp):
    xp.ones(3)
""",
        "--gpuperf-all",
    )
    found.ended(passed=5)
    assert "passed" not in found.statuses.values()
