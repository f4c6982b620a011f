"""The choice: which names there are, and what each of them lacks before a device is opened."""

import pytest
from cases import for_each

from pytest_gpuperf.devices.choice import Choice, backends
from pytest_gpuperf.devices.simulated import SimulatedBackend
from pytest_gpuperf.model.errors import GpuPerfError


@for_each(
    ("said", "choice"),
    [
        *(("available: auto, none", choice) for choice in ("cudnn", "")),
        *(("takes no", choice) for choice in ("auto:1", "none:cpu")),
        *(("is a number", choice) for choice in ("simulated:2", "cupy:-1", "cupy:1.5", "cupy:٣")),
        ("gpu or cpu", "sycl:fpga"),
        ("one of cuda", "torch:jax"),
        ("a number, e.g. jax:0, not 'gpu'; jax:cpu emulates a GPU", "jax:gpu"),
        *(("is a number below 3", choice) for choice in ("many:3", "many:first", "many:-1")),
        *(("expected the name of a mod", f"standin:{name}") for name in (".numpy", "a b", "a:b")),
    ],
)
def test_a_choice_that_nobody_offers_is_refused(said, choice):
    with pytest.raises(GpuPerfError, match=said):
        Choice(choice, lambda: [SimulatedBackend(name="many", count=3)]).missing()


@for_each(
    ("choice", "remedy"),
    [("torch:cpu", r"install pytest-gpuperf\[torch\]$"), ("standin:nosuch", "install it$")],
)
def test_a_library_that_is_to_emulate_and_is_not_installed_is_refused_at_start(installed, choice, remedy):
    installed(torch=None)
    with pytest.raises(GpuPerfError, match=f", which emulates a GPU, is not installed; {remedy}"):
        Choice(choice).missing()


def test_auto_takes_only_what_compares_with_numpy():
    automatic = {backend.name for backend in backends().values() if backend.automatic}
    assert automatic == {"cupy", "sycl"}
