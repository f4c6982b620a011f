"""Every form of configuration, and every form of collection, is the same to us."""

import json
from collections import Counter
from fnmatch import fnmatchcase

import pytest
from plugins import needed

pytestmark = pytest.mark.all_plugins

WORDS = {
    "addopts": ["--strict-markers", "--strict-config", "--import-mode=importlib"],
    "gpuperf_gpu": "cupy",
    "gpuperf_max_time": 5,
    "gpuperf_cost_ratio": 3,
    "gpuperf_all": True,
    "gpuperf_fail": "doubt",
    "gpuperf_lock": "none",
    "gpuperf_json": "r.json",
    "gpuperf_device_params": ["engine"],
    "gpuperf_device_values": ["mine=numpy"],
}
IN_TOML = "\n".join(f"{key} = {json.dumps(value)}" for key, value in WORDS.items())
IN_INI = IN_TOML.translate(str.maketrans(dict.fromkeys('[]",', "")))

CONFIGURED = """
@pytest.mark.parametrize("engine", ["numpy", "cupy"])
def test_ones(engine):
    conftest.LIBRARIES[engine].ones(3)

@pytest.mark.speedup(min=300)
@pytest.mark.parametrize("engine", ["numpy", "cupy"])
def test_named(engine):
    conftest.LIBRARIES[engine].ones(3)

@pytest.mark.parametrize("xp", ["numpy", "cupy"])
def test_not_named(xp):
    pass
"""


def settled(pytester, suite, file, text):
    """Run a suite that has its options in a file."""
    (pytester.path / file).write_text(text, encoding="utf-8")
    pytester.syspathinsert()
    return suite(CONFIGURED, ini=None, ours=())


@pytest.mark.parametrize(
    ("file", "table", "text"),
    [("pyproject.toml", "tool.pytest", IN_TOML), ("setup.cfg", "tool:pytest", IN_INI)],
)
def test_every_form_of_configuration_says_the_same(pytester, suite, file, table, text):
    if text is IN_TOML:
        needed("_pytest.subtests", "pytest 9, which has native TOML")
    found = settled(pytester, suite, file, f"[{table}]\n{text}\n")
    found.ended(passed=5, failed=1)
    assert {
        "test_ones[numpy]": ("recorded", "all"),
        "test_ones[cupy]": ("recorded", "all"),
        "test_named[numpy]": ("recorded", "marker"),
        "test_named[cupy]": ("failed", "marker"),
    } == {name: (record["status"], record["source"]) for name, record in found.records.items()}
    assert 3 == found.written["cost_ratio"]


@pytest.mark.parametrize(
    ("file", "line", "said"),
    [
        ("pytest.toml", 'gpuperf_max_time = "low"', "gpuperf_max_time in the ini file: *expects a float*"),
        ("pytest.toml", "gpuperf_max_time = -2", "gpuperf_max_time in the ini file: -2* is not a positive *"),
        ("pytest.toml", 'gpuperf_all = "yes"', "gpuperf_all in the ini file: *expects a bool*"),
        ("pytest.toml", 'gpuperf_device_params = "xp"', "gpuperf_device_params in the *: *expects a list*"),
        ("pytest.toml", "gpuperf_device_params = []", "gpuperf_device_params is empty: list at least one *"),
        ("pytest.ini", "gpuperf_max_time =", "gpuperf_max_time in the ini file: *float: ''; expected a pos*"),
        ("pytest.ini", "gpuperf_cost_ratio = 3:1", "*float: '3:1'; expected a price ratio above 0: *"),
        ("pytest.ini", "gpuperf_device_values = a=toch", "gpuperf_device_values: 'toch' is not a known *"),
        ("pytest.ini", "gpuperf_device_values = a", "gpuperf_device_values: 'a' is not VALUE=DEVICE, *"),
        ("pytest.ini", "gpuperf_all = perhaps", "gpuperf_all in *: *'perhaps'; expected true or false"),
    ],
)
def test_a_value_that_cannot_be_read_is_named_with_its_key_and_what_is_expected(
    pytester, suite, file, line, said
):
    if file == "pytest.toml":
        needed("_pytest.subtests", "pytest 9, which has native TOML")
    found = settled(pytester, suite, file, f"[pytest]\n{line}")
    assert pytest.ExitCode.USAGE_ERROR == found.result.ret
    (error,) = filter(None, found.result.errlines)
    assert fnmatchcase(error, f"ERROR: {said}")


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("gpuperf_failon", "gpuperf_fail_on"),
        ("gpuprf-fail_on", "gpuperf_fail_on"),
    ],
)
def test_a_misspelt_key_is_an_error_that_names_the_nearest_right_one(pytester, key, nearest):
    others = "timeout_of_others = 3\nperf_baseline = b\ngpu_max_time = 1\nsuperf_all = 1\n"
    pytester.makeini(f"[pytest]\n{others}{key} = speedup:10%\n")
    result = pytester.runpytest_inprocess()
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    (error,) = filter(None, result.errlines)
    assert fnmatchcase(error, f"ERROR: {key} in the ini file is no option of *; use {nearest}")


def test_doctests_and_inherited_tests_of_a_marked_module(suite):
    found = suite(
        """
pytestmark = pytest.mark.speedup(min=3)

class Base:
    def test_ones(self, xp):
        '''
        >>> 1 + 1
        2
        '''
        xp.ones(self.n)

class TestThree(Base):
    n = 3

class TestFour(Base):
    n = 4

    def test_more(self, xp):
        super().test_ones(xp)
""",
        "--doctest-modules",
    )
    found.ended(passed=7)
    assert {"recorded": 3, "passed": 3} == Counter(found.statuses.values())
