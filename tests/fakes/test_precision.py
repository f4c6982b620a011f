"""A float32 result that is a little off, on a GPU with TF32; the fake computes no values."""

import json

CONFTEST = """
import numpy as np
import pytest
from pytest_gpuperf.devices.torch import TorchDevice

@pytest.fixture(autouse=True)
def values(monkeypatch):
    \"\"\"Give each result the values 1, 2, 3, ..., and on the GPU 2 % more.\"\"\"

    def asnumpy(device, array):
        found = np.arange(1, array.numel() + 1, dtype=np.float32).reshape(tuple(array.shape))
        return found if device.kind == "cpu" else np.float32(1.02) * found

    monkeypatch.setattr(TorchDevice, "asnumpy", asnumpy)
"""
SUITE = """
import numpy as np
import pytest
import torch

pytestmark = pytest.mark.speedup(min=1e-7)
CALLS = {
    "sum": lambda a: a.sum(dim=0),
    "sort": lambda a: a.sort().values,
    "fft": lambda a: torch.fft.irfft(torch.fft.rfft(a)),
    "exp": lambda a: a.exp() * 2,
    "product": lambda a: a @ a,
}

@pytest.mark.parametrize("name", CALLS)
def test_it(device, name):
    a = device.asarray(np.ones((64, 64), dtype=np.float32))
    return lambda: CALLS[name](a)
"""


def test_a_product_has_the_tolerance_of_the_mode_and_other_work_float32s_own(ran):
    _, report = ran("torch", SUITE, conftest=CONFTEST)
    listed = json.loads(report.read_text())["records"]
    assert all(record["gpu"]["device"]["reduced_eps"] == 2**-10 for record in listed)
    records = {record["nodeid"].partition("[")[2].removesuffix("]"): record for record in listed}
    product = records.pop("product")["check"]
    assert (True, 2**-5) == (product["agreed"], product["tolerance"])
    assert {"sum", "sort", "fft", "exp"} == records.keys()
    for record in records.values():
        assert "devices_disagree" == record["reason_code"]
        assert "relative error 0.02, tolerance 0.00035" in record["reason"]
