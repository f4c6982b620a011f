"""Plugins that run or report tests: async runners, junitxml, json-report, and plugins that are turned off."""

import json
import xml.etree.ElementTree as ElementTree

import pytest
from plugins import needed

pytestmark = pytest.mark.all_plugins

MARKED = """
@pytest.mark.speedup(min=3)
def test_ones(xp):
    xp.ones(3)
"""

RUNNER = """
    import asyncio
    import inspect

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(pyfuncitem):
        if inspect.iscoroutinefunction(pyfuncitem.obj):
            names = pyfuncitem._fixtureinfo.argnames
            asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
            return True
"""


@pytest.mark.parametrize("option", ["--gpuperf-all", "--gpuperf-off"])
def test_async_tests_of_another_plugin_go_on_as_before(suite, option):
    source = """
RAN = []

async def test_waits(xp):
    RAN.append(xp.__name__)

def test_ran(xp):
    assert RAN == ["numpy", "cupy"]
"""
    found = suite(source, option, conftest=RUNNER)
    found.ended(passed=4)
    assert not [name for name in found.records if "waits" in name]


def test_junit_and_json_report_have_the_properties_of_variants_once(suite):
    needed("pytest_jsonreport", "pytest-json-report")
    found = suite(
        """
@pytest.mark.speedup(min=3)
def test_ones(xp, record_property):
    record_property("library", xp.__name__)
    return lambda: xp.ones(3)
""",
        "-o",
        "junit_family=xunit1",
        "--junit-xml=j.xml",
        "--json-report",
        "--json-report-file=j.json",
    )
    found.ended(passed=2)
    cases = list(ElementTree.parse(found.path / "j.xml").getroot().iter("testcase"))
    in_junit = [[each.get("name") for each in case.iter("property")] for case in cases]
    tests = json.loads((found.path / "j.json").read_text(encoding="utf-8"))["tests"]
    in_json = [[name for each in test["user_properties"] for name in each] for test in tests]
    numbers = ["gpuperf.speedup", "gpuperf.low", "gpuperf.high"]
    assert [["library", "gpuperf.status"], ["library", "gpuperf.status", *numbers]] == in_junit == in_json


def test_plugins_that_are_turned_off_are_not_missed(suite):
    plugins = ("terminal", "cacheprovider", "randomly", "xdist", "timeout", "benchmark")
    found = suite(MARKED, *(f"-pno:{plugin}" for plugin in plugins))
    assert 0 == found.result.ret
    assert {"test_ones[numpy]": "recorded", "test_ones[cupy]": "passed"} == found.statuses
