"""Variants: tests of a suite's own that differ in their device only, in the shapes that suites have."""

import re
import sys
from collections import Counter
from fnmatch import fnmatch
from functools import partial

import pytest
from cards import REAL


@pytest.fixture
def suite(suite):
    """Run a suite whose CuPy is array-api-compat's."""
    return partial(suite, conftest='\n    cupy.__name__ = "array_api_compat.cupy"\n')


# Values of parameters, fixtures, classes, names of tests and markers that make variants of each other.
MADE = """
SPEEDUP = pytest.mark.speedup(min=3)

@SPEEDUP
@pytest.mark.parametrize("xp", [conftest.numpy, conftest.cupy], ids=["a", "b"])
def test_modules(xp):
    xp.ones(3)

@SPEEDUP
def test_fixture(xp):
    return lambda: xp.ones(3)

PLACES = [
    ("numpy", None, "float64"), ("cupy", "cuda", "float64"),
    ("numpy", None, "float32"), ("cupy", None, "float32"),
]

@SPEEDUP
@pytest.mark.parametrize("array_namespace, device, dtype_name", PLACES)
def test_several(array_namespace, device, dtype_name):
    conftest.LIBRARIES[array_namespace].ones(3, dtype=dtype_name)

FAST = pytest.param(conftest.cupy, marks=pytest.mark.speedup(min=5))

@pytest.mark.parametrize("xp", [conftest.numpy, FAST], ids=["xp0", "xp1"])
def test_marked_parameter(xp):
    xp.ones(3)

@pytest.mark.parametrize("n", [3, pytest.param(4, marks=pytest.mark.speedup)])
@pytest.mark.parametrize("xp", [conftest.numpy, conftest.cupy], ids=["xp0", "xp1"])
def test_marked_size(xp, n):
    xp.ones(n)

@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.parametrize("xp", ["cupy", "numpy"])
@SPEEDUP
def test_gpu_first(xp, n):
    conftest.LIBRARIES[xp].ones(n)

class TestUnit(unittest.TestCase):
    def setUp(self):
        self.n = 3

    @pytest.mark.speedup(pair="unit", min=3)
    def test_ones_gpu(self):
        conftest.cupy.ones(self.n)

    @pytest.mark.speedup(pair="unit")
    def test_ones_cpu(self):
        with self.subTest(n=self.n):
            conftest.numpy.ones(self.n)

    def tearDown(self):
        assert self.n == 3

class Base:
    @SPEEDUP
    def test_ones(self):
        self.xp.ones(3)

class TestCupy(Base):
    pytestmark = [pytest.mark.filterwarnings("default")]
    xp = conftest.cupy

class TestNumpy(Base):
    xp = conftest.numpy
"""
PARTNERS = {
    "test_modules[b]": "test_modules[a]",
    "test_fixture[cupy]": "test_fixture[numpy]",
    "test_several[cupy-cuda-float64]": "test_several[numpy-None-float64]",
    "test_several[cupy-None-float32]": "test_several[numpy-None-float32]",
    "test_marked_parameter[xp1]": "test_marked_parameter[xp0]",
    "test_marked_size[xp1-4]": "test_marked_size[xp0-4]",
    "test_gpu_first[cupy-3]": "test_gpu_first[numpy-3]",
    "test_gpu_first[cupy-4]": "test_gpu_first[numpy-4]",
    "TestUnit::test_ones_gpu": "TestUnit::test_ones_cpu",
    "TestCupy::test_ones": "TestNumpy::test_ones",
}
IN_FILES = {
    "test_a": """
        import pytest, conftest

        pytestmark = pytest.mark.speedup(min=300)

        stricter = pytest.mark.speedup(pair="ones", device="cupy", min=5)

        @pytest.mark.parametrize("n", [3, pytest.param(4, marks=stricter)])
        @pytest.mark.speedup(pair="ones", device="cupy", min=3)
        def test_fast(n):
            conftest.cupy.ones(n)

        def test_module(xp):
            xp.ones(3)

        @pytest.mark.speedup(min=3)
        class TestIt:
            def test_class(self, xp):
                xp.ones(3)

            @pytest.mark.speedup(min=4)
            def test_method(self, xp):
                xp.ones(3)
        """,
    "test_b": """
        import pytest, conftest

        @pytest.mark.parametrize("n", [3, 4])
        @pytest.mark.speedup(pair="ones", device="numpy")
        def test_slow(n):
            conftest.numpy.ones(n)
        """,
}
CLOSEST = {
    "test_fast[3]": 3,
    "test_fast[4]": 5,
    "test_module[cupy]": 300,
    "TestIt::test_class[cupy]": 3,
    "TestIt::test_method[cupy]": 4,
}


def test_items_that_differ_in_their_device_alone_are_variants(suite, pytester):
    pytester.makepyfile(**IN_FILES)
    found = suite(MADE, "-v")
    found.ended(passed=31, failed=1)
    gpu = {name: record for name, record in found.records.items() if record["pairing"]["kind"] == "gpu"}
    here = {name: f"test_it.py::{partner}" for name, partner in PARTNERS.items()}
    assert here == {
        name: record["pairing"]["partner"] for name, record in gpu.items() if "test_a.py" not in name
    }
    for name, record in gpu.items():
        assert record["status"] == (
            "failed" if "test_module[" in name else "recorded" if "test_marked_size" in name else "passed"
        )
        assert 10 == found.speedup(name)
    assert {"recorded"} == {record["status"] for name, record in found.records.items() if name not in gpu}
    limits = {name: gpu[f"test_a.py::{name}"]["demand"]["min"] for name in CLOSEST}
    assert limits == CLOSEST
    assert gpu["test_a.py::test_fast[4]"]["pairing"]["partner"] == "test_b.py::test_slow[4]"
    assert gpu["test_marked_parameter[xp1]"]["demand"]["min"] == 5
    assert found.records["TestUnit::test_ones_cpu"]["demand"]["min"] == 3, "which is its GPU variant's"
    assert {"call"} == {found.records[f"test_fixture[{library}]"]["scope"] for library in ("numpy", "cupy")}
    assert {"body"} == {
        found.records[name]["scope"] for name in ("TestUnit::test_ones_gpu", "test_modules[b]")
    }
    expected = ["cupy-3", "cupy-4", "numpy-3", "numpy-4"]
    order = [name.partition("[")[2][:-1] for name in found.endings if name.startswith("test_gpu_first")]
    assert expected == order, "the suite's own order is kept"


# CPU variants that end otherwise than by passing, and GPU variants that have nothing to be compared with.
BROKEN = """
SPEEDUP = pytest.mark.speedup(min=3)
ENDS = {
    "skips": lambda: pytest.skip("not today"),
    "fails": lambda: 1 / 0,
    "xfails": lambda: pytest.xfail("a bad day"),
}

@SPEEDUP
@pytest.mark.parametrize("how", ENDS)
def test_cpu(xp, how):
    if xp is conftest.numpy:
        ENDS[how]()
    xp.ones(3)
"""
LONELY = """
@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("xp", ["numpy"])
def test_lonely(xp):
    conftest.LIBRARIES[xp].ones(3)
"""
ODD = (
    BROKEN
    + LONELY
    + """
@SPEEDUP
@pytest.mark.parametrize("how", ["skips", "fails"])
def test_gpu(xp, how):
    if xp is conftest.cupy:
        ENDS[how]()
    xp.ones(3)

@pytest.fixture
def at_last(xp, where):
    yield
    if where == "both":
        pytest.skip("at last")
    assert xp is not conftest.LIBRARIES[where], "not clean"

@SPEEDUP
@pytest.mark.parametrize("where", ["cpu", "gpu", "both"])
def test_at_last(xp, where, at_last):
    xp.ones(3)

def unit(where, least=3):
    class Unit(unittest.TestCase):
        @pytest.mark.speedup(pair=where, min=least)
        def test_numpy(self):
            conftest.numpy.ones(3)

        @pytest.mark.speedup(pair=where, min=least)
        def test_cupy(self):
            conftest.cupy.ones(3)

        def tearDown(self):
            if where == "both":
                pytest.skip("at last")
            assert where not in self._testMethodName, "not clean"
    return Unit

TestCpuUnclean, TestGpuUnclean, TestSkipsAtLast = unit("numpy"), unit("cupy"), unit("both")
TestTooSlow = unit("nowhere", 300)

class TestExpected(unittest.TestCase):
    @pytest.mark.speedup(pair="expected")
    def test_numpy(self):
        conftest.numpy.ones(3)

    @unittest.expectedFailure
    @pytest.mark.speedup(pair="expected")
    def test_cupy(self):
        raise ValueError("known")

@pytest.mark.parametrize(
    "xp",
    [
        pytest.param("numpy", marks=pytest.mark.speedup(mim=3)),
        pytest.param("cupy", marks=pytest.mark.speedup(min=3)),
    ],
)
def test_wrong_marker(xp):
    conftest.LIBRARIES[xp].ones(3)

class Base:
    @pytest.mark.speedup
    @pytest.mark.parametrize("m", [1, 2])
    def test_ones(self, m):
        self.xp.ones(self.n)

class TestOther4(Base):
    xp, n = conftest.numpy, 4

class TestOther1(Base):
    xp, n = conftest.cupy, 1

@pytest.mark.parametrize("xp", ["cupy", "numpy"])
def test_unmarked(xp):
    pass
"""
)
ALONE = "nothing to compare with: its CPU variant test_it.py::{} ended as error: "
NO_PAIR = "nothing to compare with: this test runs on the CPU, and no other variant of it runs on a GPU; *"
UNCLEAN = "*AssertionError: not clean"
ENDINGS = {
    "test_cpu[numpy-skips]": ("SKIPPED", "skipped", "not today"),
    "test_cpu[cupy-skips]": ("SKIPPED", "skipped", "its CPU variant was skipped: not today"),
    "test_cpu[numpy-fails]": ("FAILED", "error", "ZeroDivisionError: *"),
    "test_cpu[cupy-fails]": ("FAILED", "error", ALONE.format("test_cpu[numpy-fails]") + "ZeroDivision*"),
    "test_cpu[numpy-xfails]": ("XFAIL", "skipped", "a bad day"),
    "test_cpu[cupy-xfails]": ("SKIPPED", "skipped", "its CPU variant was skipped: a bad day"),
    "test_gpu[cupy-skips]": ("SKIPPED", "skipped", "not today"),
    "test_gpu[cupy-fails]": ("FAILED", "error", "ZeroDivisionError: *"),
    "test_at_last[numpy-cpu]": ("ERROR", "error", UNCLEAN),
    "test_at_last[cupy-cpu]": ("FAILED", "error", ALONE.format("test_at_last[numpy-cpu]") + UNCLEAN),
    "test_at_last[cupy-gpu]": ("ERROR", "error", UNCLEAN),
    "test_at_last[numpy-both]": ("SKIPPED", "recorded", None),
    "test_at_last[cupy-both]": ("SKIPPED", "passed", None),
    "TestCpuUnclean::test_numpy": ("FAILED", "error", UNCLEAN),
    "TestCpuUnclean::test_cupy": ("FAILED", "error", ALONE.format("TestCpuUnclean::test_numpy") + UNCLEAN),
    "TestGpuUnclean::test_cupy": ("FAILED", "error", UNCLEAN),
    "TestSkipsAtLast::test_numpy": ("SKIPPED", "recorded", None),
    "TestSkipsAtLast::test_cupy": ("SKIPPED", "passed", None),
    "TestExpected::test_cupy": ("XFAIL", "error", "ValueError: known*"),
    "TestTooSlow::test_cupy": ("FAILED", "failed", "required at least 300x, *"),
    "test_lonely[numpy]": ("ERROR", "error", NO_PAIR),
    "test_wrong_marker[numpy]": ("ERROR", "error", "@pytest.mark.speedup: has no argument 'mim'*"),
    "test_wrong_marker[cupy]": ("FAILED", "error", "*[numpy] ended as error: @pytest.mark.speedup: has no *"),
}
RECORDED = ("PASSED", "recorded", None)


def matches(text, pattern):
    return text == pattern or (text and pattern and fnmatch(text, pattern.replace("[", "[[]")))


def test_a_variant_says_what_became_of_the_other_one(suite):
    found = suite(ODD, "-v")
    assert {*ENDINGS} < {*found.records}
    for name, record in found.records.items():
        ending, status, reason = ENDINGS.get(name, RECORDED)
        assert (ending, status) == (found.endings[name], record["status"]), name
        assert matches(record["reason"], reason), (name, record["reason"])
    for how in ("skips", "xfails"):
        assert "cpu_variant_skipped" == found.records[f"test_cpu[cupy-{how}]"]["reason_code"]
    for how in ("skips", "fails"):
        notes = {note["code"]: note["text"] for note in found.records[f"test_gpu[numpy-{how}]"]["notes"]}
        assert notes["no_partner"].startswith(f"its GPU variant test_it.py::test_gpu[cupy-{how}] was ")
    others = [record for name, record in found.records.items() if name.startswith("TestOther")]
    assert [None] * 4 == [record["pairing"]["partner"] for record in others], "they differ in more"


WARNS = """
import warnings

@SPEEDUP
@pytest.mark.parametrize(
    "xp", ["cupy", pytest.param("numpy", marks=pytest.mark.filterwarnings("error:slow"))]
)
def test_cpu_warns(xp):
    warnings.warn("slow") if xp == "numpy" else None
    conftest.LIBRARIES[xp].ones(3)

@SPEEDUP
def test_gone(xp):
    xp.ones(3)
"""


def test_a_variant_alone_says_what_became_of_the_other_one(suite):
    found = suite(BROKEN + WARNS, "-v", "-k", "(cupy and not gone) or (numpy and gone)")
    assert 5 == len(found.endings)
    for name in [f"test_cpu[cupy-{how}]" for how in ("skips", "fails", "xfails")]:
        assert matches(found.records[name]["reason"], ENDINGS[name][2])
        assert ENDINGS[name][0] == found.endings[name]
    assert "FAILED" == found.endings["test_cpu_warns[cupy]"]
    assert "ended as error: UserWarning: slow" in found.records["test_cpu_warns[cupy]"]["reason"]
    (note,) = (note for note in found.records["test_gone[numpy]"]["notes"] if note["code"] == "no_partner")
    assert "was skipped: deselected" in note["text"]
    assert "deselected" == found.records["test_gone[cupy]"]["reason_code"]
    found.says("- CPU variant test_it.py::test_cpu[[]numpy-fails], call -", "E*ZeroDivisionError")


ZIPPED = """
class Odd:
    pass

@pytest.mark.parametrize("xp, m, n, v", [("numpy", 0, 1, Odd()), ("cupy", 0, 2, Odd())])
@pytest.mark.speedup(min=3)
def test_zipped(xp, m, n, v):
    conftest.LIBRARIES[xp].ones(n)
"""


def test_variants_that_differ_in_more_than_the_device_say_in_which_parameters(suite):
    found = suite(ZIPPED)
    found.ended(errors=2)
    for device, other in (("numpy", "GPU"), ("cupy", "CPU")):
        (reason,) = (each["reason"] for name, each in found.records.items() if f"[{device}-" in name)
        assert reason.startswith(
            f"nothing to compare with: no variant of this test on the {other} has the same n and v;"
        )


MADE_ANEW = """
from dataclasses import dataclass, field
from datetime import date
import numpy

@dataclass(frozen=True)
class Frozen:
    n: int
    sizes: list

@dataclass
class Open:
    n: int
    name: str = field(default="", compare=False)

class Raising:
    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return self.n

    def __eq__(self, other):
        raise ZeroDivisionError

class Endless(list):
    def __iter__(self):
        while True:
            yield 1

KINDS = {
    "tuple": lambda n: (n, (n, "a")),
    "list": lambda n: [n, [n]],
    "dict": lambda n: {"n": n, "shape": [n]},
    "set": lambda n: {n, 0},
    "slice": lambda n: slice(n),
    "frozen": lambda n: Frozen(n, [n]),
    "open": lambda n: Open(n, str(object())),
    "numpy": numpy.int64,
    "array of a tuple": lambda n: (numpy.float32(n), numpy.dtype("f4")),
    "date": lambda n: date(2026, 1, n),
    "as another type": lambda n: n if n == 1 else float(n),
}

@pytest.mark.speedup(min=3)
@pytest.mark.parametrize(
    "xp, case", [(xp, make(n)) for make in KINDS.values() for n in (1, 2) for xp in ("numpy", "cupy")]
)
def test_equal(xp, case):
    conftest.LIBRARIES[xp].ones(3)

@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("xp, case", [(xp, make()) for make in (
    lambda: Raising(1), lambda: numpy.ones(3), lambda: [object()], Endless, lambda: [1] * 5000
) for xp in ("numpy", "cupy")])
def test_not_known_to_be_equal(xp, case):
    conftest.LIBRARIES[xp].ones(3)

@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("xp, case", [("numpy", [1]), ("cupy", [1.0]), ("numpy", (2,)), ("cupy", [2])])
def test_of_another_type(xp, case):
    conftest.LIBRARIES[xp].ones(3)
"""


def test_values_that_are_equal_pair_though_each_was_made_anew_and_no_others_do(suite):
    found = suite(MADE_ANEW)
    kinds = [name.partition("[")[0] for name, each in found.records.items() if each["status"] == "error"]
    assert {"test_not_known_to_be_equal": 10, "test_of_another_type": 4} == Counter(kinds)
    partners = [
        each["pairing"]["partner"] for name, each in found.records.items() if "test_equal[cupy" in name
    ]
    assert 22 == len({*partners})
    found.ended(passed=44, errors=14)


GOES_WITH_THE_DEVICE = """
@pytest.mark.speedup(min=3, pair="one function")
@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.parametrize("xp, rtol, v", [("numpy", 1e-12, [0]), ("cupy", 1e-5, [0])])
def test_one(xp, rtol, v, n):
    conftest.LIBRARIES[xp].ones(n)

@pytest.mark.speedup(min=3, pair="two")
@pytest.mark.parametrize("n", [3, 4])
def test_two_cpu(n):
    conftest.LIBRARIES["numpy"].ones(n)

@pytest.mark.speedup(min=3, pair="two")
@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.parametrize("block", [256])
def test_two_cupy(n, block):
    conftest.LIBRARIES["cupy"].ones(n)

@pytest.mark.speedup(min=3, pair="cases")
@pytest.mark.parametrize("xp, n", [("numpy", 3), ("numpy", 4), ("cupy", 5), ("cupy", 6)])
def test_cases(xp, n):
    conftest.LIBRARIES[xp].ones(n)
"""


def test_under_a_name_a_parameter_that_goes_with_the_device_is_no_difference(suite):
    found = suite(GOES_WITH_THE_DEVICE)
    found.ended(passed=8, errors=4)
    said = {each["reason"] for name, each in found.records.items() if "test_cases" in name}
    assert 2 == len(said)
    assert all(" has the same n; parametrize the device by itself, or " in each for each in said)


UNKNOWN = ".* is not a known device.*gpuperf_device_values.*gpuperf_device_params"
NO_VARIANTS = [  # marks, the test's arguments, and what is said
    ('speedup(min=3), values("backend", ["fftw", 3])', "backend", f"backend='fftw'{UNKNOWN}"),
    (
        'speedup(min=3), values("backend", [Config("cpu"), Config("cuda")])',
        "backend",
        "backend=Config is one of several objects of a class.*, from device.native; or parametrize over ",
    ),
    ('speedup(min=3), values("backend", [Config("cpu"), Other()])', "backend", f"backend=Config{UNKNOWN}"),
    ('speedup(min=3), values("backend", ["fftw", "mkl"])', "backend", f"backend='fftw'{UNKNOWN}"),
    ('speedup(min=3), values("backend", [3, 4, 3.0, 4.0])', "backend", f"backend=3{UNKNOWN}"),
    ('speedup(min=3), values("backend", [Own.A, Own.B])', "backend", f"backend=Own.A{UNKNOWN}"),
    ('speedup(min=3), values("backend", [ast, cmath])', "backend", f"backend=ast{UNKNOWN}"),
    (
        'values("backend", [of("numpy", marks=speedup), of("fftw", marks=speedup(device="fftw"))])',
        "backend",
        f"device='fftw'{UNKNOWN}",
    ),
    (
        'speedup(min=3), values("xp, device", [("numpy", "cuda")])',
        "xp, device",
        "device='cuda', xp='numpy': numpy has no GPU",
    ),
    (
        'speedup(min=3), values("xp", ["numpy", "cupy", "cupy"])',
        "xp",
        r"test_ones\[cupy1\]: uses the same device \(GPU cupy\) as its variant .*test_ones\[cupy0\]",
    ),
    (
        'values("xp", [of("numpy", marks=speedup(min=2)), of("cupy", marks=speedup(min=3))])',
        "xp",
        r"test_ones\[cupy\]: requires min=3, but its CPU variant.*test_ones\[numpy\] min=2",
    ),
    (
        "speedup(min=3, device='cuda')",
        "device",
        "device='cuda' is for a test on one device, and this one runs on the CPU and on .*gpuperf_gpu",
    ),
    ("speedup(min=3, pair='ones', device='gpu')", "xp", "pair='ones' and device='gpu' is for a test on one"),
    (
        "speedup(min=3, device='gpu'), pytest.mark.usefixtures('device')",
        "",
        "device='gpu' is for a test on one device",
    ),
    (
        "speedup(pair='ones')",
        "",
        "unknown whether this is the CPU or the GPU test of pair='ones'; pass .*device='gpu'",
    ),
    ("speedup(min=3)", "cpu, gpu", "requests both `cpu` and `gpu`; request `device` instead"),
]
HEAD = """
import ast, cmath, enum, pytest
speedup, values, of = pytest.mark.speedup, pytest.mark.parametrize, pytest.param
Own = enum.Enum("Own", "A B")
class Config:
    def __init__(self, place): self.place = place
class Other: pass
"""


def test_what_makes_no_variants_is_an_error_that_names_the_value_and_the_key(marker_errors):
    sources = [
        f"{HEAD}pytestmark = [{marks}]\ndef test_ones({names}): pass" for marks, names, _ in NO_VARIANTS
    ]
    for (marks, _, expected), found in zip(NO_VARIANTS, marker_errors(*sources), strict=True):
        assert re.search(f"^(test_ones.*)?{expected}", found), marks


BESIDE = """
pytestmark = pytest.mark.speedup
PLATFORMS = pytest.mark.parametrize("platform", ["cpu", "gpu"])

@PLATFORMS
@pytest.mark.usefixtures("device")
def test_as_jax(platform):
    return lambda: conftest.LIBRARIES[platform].ones(3)

@PLATFORMS
def test_slot(xp, platform):
    return lambda: xp.ones(3)

@pytest.mark.parametrize("platform", ["cpu"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_one_value(xp, platform, side):
    return lambda: xp.ones(3)
"""
HINT = (
    "the parameter `platform` names devices, and the fixture `device` or `xp` runs each of its values on both"
)


def test_a_parameter_that_names_devices_beside_our_fixture_is_told_before_the_first_test(suite):
    ours = "\n    del xp\n"
    named, none_left = (
        "gpuperf_device_params = device platform",
        BESIDE.replace('usefixtures("device")', "speedup"),
    )
    for ini, also in [
        ("", " and name that parameter in the ini file: gpuperf_device_params = *"),
        (named, ""),
    ]:
        found = suite(BESIDE, "--collect-only", conftest=ours, ini=ini)
        tests = "test_it.py::test_as_jax, test_it.py::test_slot"
        remedy = f"leave out the parameter, or leave out the fixture{also}"
        found.result.stdout.fnmatch_lines([f"gpuperf: {tests}: {HINT}: {remedy}"])
        assert 1 == str(found.result.stdout).count("gpuperf: ")
    assert "names devices" not in str(suite(BESIDE, "-q", "--collect-only", conftest=ours).result.stdout)
    found = suite(none_left, "-k", "test_as_jax", conftest=ours, ini=named)
    found.ended(passed=2, deselected=4)
    assert "test_it.py::test_as_jax[cpu]" == found.records["test_as_jax[gpu]"]["pairing"]["partner"]


BY_NAME = """
CALLS = dict.fromkeys(["first", "second", "emulated"], 0)

@pytest.mark.parametrize("backend", ["cpu", "cuda"])
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.speedup(min=3)
def test_named(name, backend):
    if backend == "cuda" and name != "emulated":
        raise RuntimeError("No CUDA GPUs are available")

    def work():
        CALLS[name] += backend == "cpu"
        return conftest.LIBRARIES[backend].ones(3)

    return work

def test_calls():
    assert CALLS["first"] > 5 * CALLS["second"] > 0, CALLS
"""


def test_a_cpu_variant_is_timed_in_vain_once_for_a_device_that_is_not_emulated(suite):
    found = suite(BY_NAME, "-v")
    found.ended(passed=5, skipped=2)
    assert {"test_named[first-cuda]", "test_named[second-cuda]"} == {
        name for name, status in found.statuses.items() if status == "skipped"
    }
    assert 10 == found.speedup("test_named[emulated-cuda]")


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
"""


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("options", [[], ["-n1"]], ids=" ".join)
def test_values_that_no_backend_knows_are_left_alone_and_named_once(suite, options):
    if options:
        pytest.importorskip("xdist", reason="the extra `test` has pytest-xdist")
    found = suite(OTHERS, "-Werror", "--deselect=test_it.py::test_ones[dask-3]", *options)
    found.ended(passed=9, deselected=0 if options else 1)
    assert "test_ones[cupy-3]" in found.records
    assert not [name for name in found.records if name.startswith(("test_ones[dask", "test_ones[backend3"))]
    assert found.written["unknown_values"] == [
        {"parameter": "backend", "value": value, "tests": tests}
        for value, tests in [("'dask'", 1), ("'sparse'", 2), ("TorchBackend", 2)]
    ]
    found.says(
        "left alone: 5 tests on devices that are not known (backend='dask',",
        "backend='sparse', backend=TorchBackend); gpuperf_device_values maps them:",
        "VALUE=DEVICE",
    )


LEFT_ALONE = """
pytestmark = pytest.mark.speedup

def work():
    raise AssertionError("the workload ran")

@pytest.mark.parametrize("xp", ["numpy", "cupy", "strict"])
def test_value(xp):
    return work if xp == "strict" else conftest.LIBRARIES[xp].ones(3).sum

@pytest.mark.parametrize("xp", ["numpy", "cupy", "strict"])
def test_reset(xp, gpuperf):
    call = work if xp == "strict" else conftest.LIBRARIES[xp].ones(3).sum
    return gpuperf.workload(call, reset=lambda: None)

@pytest.mark.parametrize("xp", ["numpy", "cupy", "strict"])
def test_body(xp):
    assert xp != "strict", "the workload ran"
    conftest.LIBRARIES[xp].ones(3)

class Base:
    def test_method(self):
        return self.work

class TestNumpy(Base, unittest.TestCase):
    xp, work = conftest.numpy, conftest.numpy.ones(3).sum

class TestCupy(Base, unittest.TestCase):
    xp, work = conftest.cupy, conftest.cupy.ones(3).sum

class TestStrict(Base, unittest.TestCase):
    xp, work = "strict", staticmethod(work)

def test_no_device():
    return work

class TestNoDevice(unittest.TestCase):
    def test_method(self):
        return work
"""
ALONE = {
    "test_value[strict]",
    "test_reset[strict]",
    "test_body[strict]",
    "TestStrict::test_method",
    "test_no_device",
    "TestNoDevice::test_method",
}


@pytest.mark.parametrize("chosen", [[], ["-kstrict or no_device or NoDevice"], ["--gpuperf-off"]])
def test_tests_that_are_left_alone_run_once_with_what_they_return_as_without_measuring(suite, chosen):
    found = suite(LEFT_ALONE, "-v", "-Werror", *chosen)
    assert ALONE == {name for name, ending in found.endings.items() if ending == "FAILED"}
    assert len(ALONE) == len(re.findall(r"E +AssertionError: the workload ran", str(found.result.stdout)))
    others = {ending for name, ending in found.endings.items() if name not in ALONE}
    assert others == (set() if "-k" in "".join(chosen) else {"PASSED"})


TYPO = """
@pytest.mark.parametrize("xp", ["numpy", "cupy", "cuppy"])
@pytest.mark.speedup({limit})
def test_{name}(xp):
    if xp in conftest.LIBRARIES:
        conftest.LIBRARIES[xp].ones(3)
"""


def test_where_a_gpu_is_required_a_limit_on_an_unknown_device_is_an_error(suite):
    source = TYPO.format(name="limit", limit="min=1e-9") + TYPO.format(name="bare", limit="")
    found = suite(source + LONELY, "--gpuperf-require-gpu", conftest=REAL)
    found.ended(errors=2, passed=5)
    reason = found.records["test_lonely[numpy]"]["reason"]
    assert "no other variant of it runs on a GPU" in reason
    assert "emulates" not in reason
    assert reason.startswith("left alone: 1 test on devices that are not known (xp='cuppy')")
    found.says("test_limit[[]cuppy]: xp='cuppy' is not a known *left alone")


def test_the_ini_file_names_other_parameters_and_maps_a_suites_own_values_to_devices(suite):
    mapped = "TorchBackend=cupy:1 dask=cupy:2 sparse=cupy:3 fast=cupy"
    engine = """
@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("engine", ["numpy", "cupy"])
def test_engine(engine):
    conftest.LIBRARIES[engine].ones(3)
"""
    source = OTHERS.replace('"numpy", "cupy"]', '"numpy", "fast"]') + engine
    keys = f"gpuperf_device_values = {mapped}\ngpuperf_device_params = engine\nkey_of_another_plugin = 1"
    found = suite(source, ini=keys)
    assert found.written["unknown_values"] == []
    assert len(found.records) == 12
    assert found.statuses["test_engine[cupy]"] == "passed"


THIRD = """
    from pytest_gpuperf.devices.simulated import Timing

    class Third(SimulatedBackend):
        def recognizes(self, value):
            return {"mylib:cpu": "cpu", "mylib:gpu": "gpu"}.get(value)

    MINE = Third(name="mylib", cpu=Timing(kernel=5e-3))
    LIBRARIES.update({"mylib:cpu": MINE.cpu().xp, "mylib:gpu": MINE.gpu("").xp})

    @pytest.hookimpl(optionalhook=True)
    def pytest_gpuperf_devices():
        return [BACKEND, MINE]
"""


def test_a_gpu_is_compared_with_the_cpu_of_its_own_library_else_with_numpy(suite):
    source = """
@pytest.mark.offload_threshold("n")
@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.parametrize("library", ["cupy", "mylib:gpu", "numpy", "mylib:cpu"])
def test_ones(library, n):
    conftest.LIBRARIES[library].ones(n)
"""
    found = suite(source, conftest=THIRD)
    found.ended(passed=8)
    for gpu, cpu, speedup in (("cupy", "numpy", 10), ("mylib:gpu", "mylib:cpu", 5)):
        record = found.records[f"test_ones[{gpu}-3]"]
        assert record["pairing"]["partner"] == f"test_it.py::test_ones[{cpu}-3]"
        assert record["size_group"]["name"] == f"test_it.py::test_ones[library={gpu}]"
        assert record["speedup"]["value"] == pytest.approx(speedup, rel=0.01)


BROKEN_LIBRARY = """
    from pytest_gpuperf.model.errors import Unavailable

    class Broken(SimulatedBackend):
        def cpu(self):
            raise Unavailable("Keras cannot be imported; reinstall it", broken=True)

    @pytest.hookimpl(optionalhook=True)
    def pytest_gpuperf_devices():
        return [Broken(name="keras")]
"""


def test_a_library_that_is_not_installed_skips_its_tests_with_the_marker_as_without_it(suite, monkeypatch):
    for name in ("torch", "jax", "cupy", "keras"):
        monkeypatch.setitem(sys.modules, name, None)
    tests = (
        f"""
{marker}
@pytest.mark.parametrize("backend", ["numpy", "torch", "jax", "cupy", "keras"])
def test_{name}(backend):
    pytest.importorskip(backend).ones(3)
"""
        for name, marker in (("plain", ""), ("marked", "@pytest.mark.speedup(min=2)"))
    )
    found = suite("".join(tests), "--gpuperf-gpu=auto", "-Walways", conftest=BROKEN_LIBRARY)
    found.ended(passed=2, skipped=8, warnings=1)
    codes = {"numpy": None, "cupy": "no_gpu", **dict.fromkeys(("torch", "jax", "keras"), "no_library")}
    assert {f"test_marked[{name}]": code for name, code in codes.items()} == {
        name: record["reason_code"] for name, record in found.records.items()
    }
    found.says("BrokenGpuWarning: no test uses this GPU: Keras cannot be imported; reinstall it")


@pytest.mark.parametrize("library", ["torch", "accelerator:polars"])
def test_a_library_that_is_not_installed_is_an_error_of_the_command_and_skips_for_the_ini_file(
    suite, monkeypatch, library
):
    monkeypatch.setitem(sys.modules, library.rpartition(":")[2], None)
    source = "@pytest.mark.speedup(min=2)\ndef test_ones(device):\n    device.xp.ones(3)\n"
    skipped = suite(source + "def test_cpu(cpu): pass", ini=f"gpuperf_gpu = {library}", ours=())
    skipped.ended(skipped=2)
    skipped.says("CPU * | GPU none", "test_ones: * is not installed; ")
    allowed = "--gpuperf-off" if library == "torch" else "--gpuperf-allow=no-gpu"
    suite(source, allowed, ours=[f"--gpuperf-gpu={library}"]).ended(skipped=1)
    ended = suite(source, ours=["--gpuperf-gpu", library]).result
    assert pytest.ExitCode.USAGE_ERROR == ended.ret
    ended.stderr.fnmatch_lines(["*--gpuperf-gpu: * is not installed; install *--gpuperf-allow=no-gpu*"])


LAZY = """
class Lazy:
    def __init__(self, name):
        self._name = name

    def __getattr__(self, attribute):
        return getattr(importlib.import_module(self._name), attribute)

@pytest.mark.parametrize("xp", [numpy, Lazy("mlx"), Lazy("no_such_library")], ids=["np", "mx", "other"])
@pytest.mark.speedup(min=3)
def test_marked(xp):
    return None if isinstance(xp, Lazy) else xp.ones(3).sum

@pytest.mark.parametrize("xp", [numpy, Lazy("mlx"), Lazy("no_such_library")], ids=["np", "mx", "other"])
def test_unmarked(xp):
    pass
"""


@pytest.mark.parametrize("options", [(), ("--gpuperf-all",)], ids=" ".join)
def test_a_module_that_is_imported_when_it_is_first_used_is_known_though_its_library_is_missing(
    suite, monkeypatch, options
):
    monkeypatch.setitem(sys.modules, "mlx", None)
    found = suite(f"import importlib\nfrom conftest import numpy, pytest\n{LAZY}", *options)
    found.ended(passed=5, skipped=1)
    assert "MLX" in found.records["test_marked[mx]"]["reason"]


UNREADABLE = """
    def pytest_collection_modifyitems(items):
        for item in items:
            item.callspec = None  # so that who reads its parameters meets an AttributeError
"""
OF_ANOTHER_PLUGIN = """
import pytest

@pytest.mark.speedup(min=3)
def test_marked():
    pass

@pytest.mark.scaling([1, 2])
def test_scaling():
    pass

def test_unmarked():
    pass
"""


@pytest.mark.parametrize("options", [(), ("--gpuperf-all",)])
def test_what_reading_a_test_raises_is_the_error_of_that_test_alone(suite, options):
    found = suite(OF_ANOTHER_PLUGIN, *options, conftest=UNREADABLE)
    found.ended(errors=2, passed=1)
    found.says("test_marked: reading the test's marker, parameters and fixtures raised AttributeError: *")


FAR = """
import pytest, conftest

@pytest.fixture(scope="module")
def data():
    yield 3
    {teardown}

@pytest.mark.speedup
def test_first(data, xp):
    xp.ones(data)

@pytest.mark.speedup(pair="{pair}", device="cupy", min=3)
def test_fast(data):
    conftest.cupy.ones(data)

def test_last(data):
    assert data == 3
"""
SLOW = """
import pytest, conftest

@pytest.fixture(scope="module", autouse=True)
def alone(request):
    request.session.alone = True

@pytest.mark.speedup(device="numpy", pair="good")
def test_slow(request):
    assert request.session.alone
    conftest.numpy.ones(3)

@pytest.mark.speedup(device="numpy", pair="raises")
def test_slow_too():
    conftest.numpy.ones(3)
"""


def test_a_cpu_variant_in_another_module_runs_without_the_fixtures_of_this_one(suite, pytester):
    of_here = {
        f"test_{pair}": FAR.format(pair=pair, teardown=teardown)
        for pair, teardown in (("good", "pass"), ("raises", "1 / 0"))
    }
    pytester.makepyfile(**of_here, test_slow=SLOW)
    found = suite(None, *(f"{name}.py" for name in of_here), "test_slow.py")
    found.ended(passed=5 + 4, errors=2)
    assert 10 == found.speedup("test_good.py::test_fast")
    assert "division by zero" in found.records["test_raises.py::test_fast"]["reason"]


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


WITHOUT_GPU = """
    JAX = SimulatedBackend(name="jax", unavailable="JAX sees no GPU")
    JAX._cpu = BACKEND.cpu()

    @pytest.hookimpl(optionalhook=True)
    def pytest_gpuperf_devices():
        return [BACKEND, JAX]
"""
ON_CPU = """
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

@pytest.mark.speedup
def test_plain(xp):
    xp.ones(3)

class TestMethod(unittest.TestCase):
    @pytest.mark.speedup(pair="method")
    def test_ones_cpu(self):
        conftest.numpy.ones(3)

    @pytest.mark.speedup(pair="method", min=3)
    @unittest.skip("no card in this machine")
    def test_ones_gpu(self):
        conftest.cupy.ones(3)
"""


def test_without_a_gpu_variants_have_no_result_but_the_remedy_and_the_suites_own_reasons_stay(suite):
    found = suite(ON_CPU, "--gpuperf-gpu=none", conftest=WITHOUT_GPU)
    found.ended(passed=7, skipped=2)
    assert {
        "test_ones[jax.numpy]": "no_gpu",
        "test_plain[cupy]": "no_gpu",
        "TestMethod::test_ones_gpu": None,
    } == {name: each["reason_code"] for name, each in found.records.items() if each["status"] == "skipped"}
    record = found.records["test_ones[jax.numpy]"]
    assert "try --gpuperf-gpu=jax:cpu" in record["reason"]
    assert record["cpu"] is not None
    assert "no card in this machine" == found.records["TestMethod::test_ones_gpu"]["reason"]
    assert "no_partner" in [note["code"] for note in found.records["test_on_cpu[jax:cpu]"]["notes"]]
    required = suite(ON_CPU, "--gpuperf-gpu=none", "--gpuperf-require-gpu", conftest=WITHOUT_GPU)
    required.ended(passed=4, skipped=1, errors=4)


@pytest.mark.parametrize("option", ["--setup-only", "--setup-plan"])
def test_what_runs_no_test_misses_no_variant(suite, option):
    found = suite(LONELY + LONELY.replace("numpy", "cupy").replace("lonely", "more"), option)
    assert found.result.ret == pytest.ExitCode.OK


IDLE = """
@pytest.mark.speedup(min=3)
@pytest.mark.parametrize("xp", [conftest.numpy, conftest.cupy], ids=["cpu", "gpu"])
def test_early(xp):
    a = xp.ones(4)
    return lambda: a if xp is conftest.cupy else a * 1.0
"""


def test_a_gpu_variant_that_does_nothing_is_held_against_what_its_cpu_variant_did(suite):
    records = suite(IDLE).records
    assert {"test_early[cpu]": "recorded", "test_early[gpu]": "error"} == {
        name: record["status"] for name, record in records.items()
    }
    assert "was seen to work on the CPU" in records["test_early[gpu]"]["reason"]
