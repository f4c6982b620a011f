"""The results of a session's tests: reruns replace, other runs stand beside each other."""

from factories import record
from msgspec.structs import replace

from pytest_gpuperf.model.demand import Pairing, SizeGroup
from pytest_gpuperf.report.results import Results


def ids(results):
    return [(each.nodeid, each.status) for each in results.all()]


def test_a_rerun_replaces_the_result_of_its_own_worker():
    results = Results()
    failed, passed = record("test_it", status="failed", reason="slow"), record("test_it", status="passed")
    results.add(failed, "gw0")
    results.add(failed, "gw1")
    results.add(replace(passed, reruns=1), "gw0")
    assert [("test_it", "passed"), ("test_it#2", "failed")] == ids(results)
    results.add(replace(passed, reruns=1), "gw1")
    assert [("test_it", "passed"), ("test_it#2", "passed")] == ids(results)


def test_a_test_that_has_begun_again_keeps_its_earlier_result_until_it_has_another():
    results = Results()
    results.add(record("test_it", status="passed"))
    results.begin("test_it")
    assert "test_it" not in results.newest
    assert [("test_it", "passed")] == ids(results)
    results.newest["test_it"] = record("test_it", status="error", reason="broken")
    assert [("test_it", "passed"), ("test_it#2", "error")] == ids(results)
    assert 2 == results.count("test_it")


def test_the_second_results_of_variants_and_of_sizes_are_groups_of_their_own():
    size_group = SizeGroup(name="test_it", parameter="n", size=4, sizes=(4, 8))
    pairing = Pairing(kind="gpu", library="cupy", partner="test_it[cpu]")
    results = Results()
    for _ in range(2):
        results.add(record("test_it[cpu]", status="recorded"))
        results.add(replace(record("test_it[gpu]", status="passed"), size_group=size_group, pairing=pairing))
    results.add(replace(record("test_it[gpu]", status="passed"), size_group=size_group, pairing=pairing))
    on_gpu = [each for each in results.all() if each.pairing]
    assert ["test_it", "test_it#2", "test_it#3"] == [each.size_group.name for each in on_gpu]
    # The third has no CPU variant of its own.
    partners = [each.pairing.partner for each in on_gpu]
    assert ["test_it[cpu]", "test_it[cpu]#2", "test_it[cpu]"] == partners
    assert "the test ran 3 times in this session; this is result 2" in on_gpu[1].notes[-1].text
