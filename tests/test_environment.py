"""Environment: what is known of the machine, and what is said where it does not tell."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

import pytest

from pytest_gpuperf import environment
from pytest_gpuperf.model import DeviceInfo

CPUINFO = "processor\t: 0\nvendor_id\t: Some\nmodel name\t: Some CPU @ 3 GHz: fast\n\nmodel name\t: Other\n"
GPU = DeviceInfo(kind="gpu", backend="cupy", name="H200", library="cupy 13")


def with_cpuinfo(monkeypatch, text: str | None) -> None:
    def read_text(path, **_):
        if text is None:
            raise FileNotFoundError(path)
        return text

    monkeypatch.setattr(Path, "read_text", read_text)


def test_the_processor_has_a_name():
    assert environment.cpu_name()


def test_the_processor_is_called_by_its_model(monkeypatch):
    with_cpuinfo(monkeypatch, CPUINFO)
    assert environment.cpu_name() == "Some CPU @ 3 GHz: fast"


@pytest.mark.parametrize("text", [None, "", "processor\t: 0\n", "model name\t:\n"])
def test_a_processor_without_a_model_is_called_by_its_architecture(monkeypatch, text):
    with_cpuinfo(monkeypatch, text)
    monkeypatch.setattr(platform, "processor", lambda: "")
    assert environment.cpu_name() == platform.machine()


def test_the_survey_names_what_the_numbers_depend_on():
    found = environment.survey(GPU, None)
    assert found.gpu == GPU
    assert found.gpu_reason is None
    assert found.python == platform.python_version()
    assert found.host["system"] == platform.system()
    assert found.cpu["name"] == environment.cpu_name()


def test_the_survey_says_why_there_is_no_gpu():
    found = environment.survey(None, "no driver")
    assert (None, "no driver") == (found.gpu, found.gpu_reason)


@pytest.mark.parametrize("name", ["pytest-gpuperf", "pytest", "numpy"])
def test_the_survey_has_the_versions_of_the_packages(name):
    assert environment.survey(None, None).packages[name] == version(name)


def test_a_package_that_is_not_installed_is_left_out(monkeypatch):
    monkeypatch.setattr(environment, "_PACKAGES", ("numpy", "no-such-package-here"))
    assert set(environment.survey(None, None).packages) == {"numpy"}


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not tell")
def test_usable_processors_are_at_most_those_of_the_machine():
    cpu = environment.survey(None, None).cpu
    assert 1 <= cpu["usable"] <= cpu["logical"]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not tell")
def test_usable_processors_are_those_of_this_process(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5})
    assert environment.survey(None, None).cpu["usable"] == 3


def test_where_the_system_does_not_tell_the_usable_processors_are_unknown(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert environment.survey(None, None).cpu["usable"] is None


def test_the_wait_for_a_processor_only_grows():
    first = environment.waited()
    if first is None:
        assert not Path("/proc/self/schedstat").exists()
    else:
        assert 0 <= first <= environment.waited()
