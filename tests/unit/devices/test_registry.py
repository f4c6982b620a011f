"""The table of backends and their classes."""

from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.devices.registry import REGISTRY
from tests.cases import for_each


@for_each("row", REGISTRY)
def test_a_row_names_a_backend_and_whether_its_cpu_emulates_a_gpu(row):
    assert row.name == row.backend().name
    if row.emulation is not None:
        assert Machine(f"{row.name}:cpu").emulates()
