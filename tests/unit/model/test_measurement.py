"""Measurements: what follows from their numbers."""

from array import array

from cases import for_each
from factories import GPU, measurement
from msgspec.structs import replace

CALLS = measurement(GPU, 0.1, 0.2, 0.3)  # and half a second for the first


@for_each(
    ("expected", "found"),
    [
        (0.3, CALLS),
        (0.1, replace(CALLS, latencies=array("d", [0.4]))),
        (0.0, replace(CALLS, latencies=array("d", [0.6]))),
        (None, measurement(GPU)),
    ],
)
def test_the_start_up_is_what_the_first_call_takes_longer_than_a_later_one_that_is_waited_for(
    expected, found
):
    assert expected == (None if found.startup is None else round(found.startup, 6))
