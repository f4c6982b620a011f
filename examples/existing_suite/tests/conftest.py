"""Every test that takes `xp` or `device` runs on NumPy and, where it can be used, on CuPy."""

import pytest

from ripple.testing import MODULES, needs_cupy


def pytest_addoption(parser):
    parser.addoption("--device", choices=("all", "cpu", "cuda"), default="all", help="the device to test on")


def skip_unless_chosen(request, device):
    chosen = request.config.getoption("--device")
    if chosen not in ("all", device):
        pytest.skip(f"--device={chosen}")


@pytest.fixture(params=["numpy", pytest.param("cupy", marks=needs_cupy)])
def xp(request):
    skip_unless_chosen(request, "cuda" if request.param == "cupy" else "cpu")
    for mark in request.node.iter_markers("skip_xp"):
        if mark.args == (request.param,):
            pytest.skip(mark.kwargs["reason"])
    return MODULES[request.param]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=needs_cupy)])
def device(request):
    skip_unless_chosen(request, request.param)
    return request.param
