from cases import for_each

from pytest_gpuperf.devices.library import is_emulated


@for_each(
    ("name", "expected"),
    [
        ("Emulated CUDA device", True),  # of tests/fakes/cuda/devices.c
        ("NVIDIA H100 80GB HBM3", False),
        ("Tesla T4", False),
        ("NVIDIA GeForce RTX 4090", False),
        ("AMD Instinct MI300X", False),
        ("Intel(R) Data Center GPU Max 1550", False),
    ],
)
def test_a_gpu_is_never_called_emulated_and_the_fake_always(name, expected):
    assert expected == is_emulated(name)
