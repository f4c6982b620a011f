"""The table of backends and their classes."""

from cases import for_each

from pytest_gpuperf.devices.registry import REGISTRY
from pytest_gpuperf.devices.stand_in import chosen_stand_in


@for_each("row", REGISTRY)
def test_a_row_names_a_backend_and_whether_its_cpu_emulates_a_gpu(row):
    backend = row.backend()
    assert row.name == backend.name
    stand_in = chosen_stand_in(f"{row.name}:cpu")
    assert (row.emulation == "itself") == (stand_in is not None)
    assert row.emulation != "numpy" or backend.is_emulation("cpu")
