"""A speedup taken apart, in words."""

from factories import near_roof
from msgspec.structs import replace

from pytest_gpuperf.report.words import roof


def test_a_speedup_is_the_product_of_the_roofs_ratio_and_of_how_near_both_codes_are():
    said = roof.line(near_roof("a.py::test_it", 200_000))  # copies of 20 us and of 2.1 us
    assert (
        "10.0x = 9.52x (the GPU's roof over the CPU's) x 1.05x (the GPU code is at 50.0 % of its roof, the "
        "CPU code at 25.0 %)"
    ) == said


def test_roofs_of_a_file_that_lies_are_no_product():
    test = near_roof("a.py::test_it", 200_000)
    no_time, long = replace(test.roof.cpu, copy_time=5e-324), replace(test.roof.gpu, copy_time=1e3)
    assert roof.line(replace(test, roof=replace(test.roof, cpu=no_time, gpu=long))) is None
