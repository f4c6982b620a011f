"""Devices of other plugins whose optional members do not work: that is told, and costs no measurement."""

import json

BACKEND = """
    import pytest
    from pytest_gpuperf.devices.simulated import Clock, SimulatedBackend, SimulatedDevice, Timing

    class Typo(SimulatedDevice):
        def host_memory(self, host):
            return self.xp.wrong_name
        def compilations(self):
            raise ValueError("no counter")
        def throttle(self):
            return "hot"
        def quota(self):
            return None

    class TypoBackend(SimulatedBackend):
        def gpu(self, selector):
            return Typo("gpu", clock=self.cpu().clock)
        def missing(self):
            return 1 / 0

    @pytest.hookimpl(optionalhook=True)
    def pytest_gpuperf_devices():
        return [TypoBackend(name="typo")]
"""
TESTS = """
    import numpy as np
    import pytest

    @pytest.mark.speedup(min=2)
    @pytest.mark.parametrize("n", [10, 20])
    def test_sum(device, n):
        values = device.asarray(np.ones(n))
        return lambda: values + 1
"""


def test_what_an_optional_member_raises_or_returns_instead_is_a_warning_once_a_run(run, pytester):
    pytester.makeconftest(BACKEND)
    result = run(TESTS, "--gpuperf-json=r.json", "-Wdefault", gpu="typo")
    result.assert_outcomes(passed=2, warnings=4)
    for method, what in (
        ("host_memory", "raised AttributeError: module 'numpy' has no attribute 'wrong_name'"),
        ("compilations", "raised ValueError: no counter"),
        ("throttle", "returned str"),
    ):
        said = f"*BackendWarning: Typo.{method} of simulated GPU {what}; the run goes on without*"
        result.stdout.fnmatch_lines([said])
    result.stdout.fnmatch_lines(["*TypoBackend.missing of typo raised ZeroDivisionError*"])
    records = json.loads((pytester.path / "r.json").read_text())["records"]
    assert [None] * 2 == [each["transfer"]["h2d"]["memory"] for each in records]


def test_where_warnings_are_errors_it_fails_a_test_that_has_been_measured(run, pytester):
    pytester.makeconftest(BACKEND)
    result = run(TESTS, "--gpuperf-json=r.json", "-Werror", gpu="typo")
    result.assert_outcomes(failed=2)
    records = json.loads((pytester.path / "r.json").read_text())["records"]
    assert ["passed"] * 2 == [each["status"] for each in records]
