"""The listing of a record: every value, with its unit, once."""

from factories import copies, offload, record
from msgspec.structs import replace

from pytest_gpuperf.model.measurement import Transfer
from pytest_gpuperf.report.html.details import listings


def test_seconds_and_bytes_have_their_unit():
    (listing,), shared = listings(
        [record(elapsed=0.25, transfer=Transfer(h2d=copies(0.001, bytes=4_000_000), d2h=None))]
    )
    facts = dict(listing.facts)
    assert "250 ms" == facts["elapsed"]
    assert "bytes 4.00 MB, arrays 1, median 1.00 ms, bandwidth 4.00 GB/s" == facts["transfer h2d"]
    assert [] == shared


def test_both_devices_stand_side_by_side():
    (listing,), _ = listings([record()])
    medians = {timing.name: (timing.cpu, timing.gpu) for timing in listing.timings}
    assert ("20.0 ms", "1.75 ms") == medians["median"]
    assert ("EPYC (numpy 2)", "H200 (cupy 13)") == medians["device"]


def test_what_only_one_device_has_leaves_a_dash_at_the_other():
    (listing,), _ = listings([record(gpu=None)])
    assert all(timing.gpu == "-" for timing in listing.timings)


def test_values_with_their_default_are_left_out():
    (listing,), _ = listings([record(reruns=0)])
    assert "reruns" not in dict(listing.facts)
    (listing,), _ = listings([record(reruns=2)])
    assert "2" == dict(listing.facts)["reruns"]


def test_what_all_measured_tests_share_is_apart_and_a_skipped_test_does_not_count():
    one, two = record(elapsed=1.0), record("b.py::test_b", elapsed=2.0)
    absent = replace(
        one, nodeid="c.py::test_c", cpu=None, gpu=None, speedup=None, status="skipped", reason="x"
    )
    each, shared = listings([one, two, absent])
    assert "speedup" in dict(shared)
    assert [["elapsed"], ["elapsed"]] == [[name for name, _ in listing.facts] for listing in each[:2]]


def test_values_in_a_row_stand_together():
    (listing,), _ = listings([record(offload=offload(reason="said elsewhere"))])
    said = dict(listing.facts)["offload"]
    assert "regime never, " in said
    assert "said elsewhere" not in said
