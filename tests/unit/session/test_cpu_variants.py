"""What CPU variants leave for their GPU variants, for how long, and which of them has to run first."""

import pytest
from factories import CPU, measurement, record

from pytest_gpuperf.collection.items import SPEC, ItemSpec
from pytest_gpuperf.devices.device_parameter import DeviceSpec
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.session.cpu_variants import CpuVariants
from pytest_gpuperf.timing.cpu_result import CpuResult

LEFT = CpuResult(
    measurement=measurement(CPU, 1.0), seconds=1.0, results=[], interference=None, restart_reason=None
)


class Item:
    """A collected item: nothing but its spec is read."""

    def __init__(self, spec):
        self.stash = pytest.Stash()
        self.stash[SPEC] = spec


def cpu(name) -> ItemSpec:
    return ItemSpec(nodeid=f"{name}-cpu", demand=Demand(), device=DeviceSpec(kind="cpu", library="numpy"))


def gpu(name, library="cupy") -> ItemSpec:
    device = DeviceSpec(kind="gpu", library=library)
    return ItemSpec(nodeid=f"{name}-{library}", demand=Demand(), device=device, partner=f"{name}-cpu")


def planned(*specs, most_kept=None, records=None):
    variants = CpuVariants(records or {}, most_kept=most_kept)
    items = [Item(spec) for spec in specs]
    variants.plan(items, specs)
    return variants, {spec.nodeid: item for spec, item in zip(specs, items, strict=True)}


def test_what_a_cpu_variant_left_stays_until_the_last_gpu_variant_has_used_it():
    variants, items = planned(cpu("a"), gpu("a"), gpu("a", "torch"))
    assert items["a-cpu"] is variants.missing_for(gpu("a"))
    variants.keep(cpu("a"), LEFT)
    assert variants.missing_for(gpu("a")) is None
    variants.release(gpu("a"))
    assert variants.result_for(gpu("a", "torch")) is LEFT
    variants.release(gpu("a", "torch"))
    assert variants.result_for(gpu("a", "torch")) is None


def test_where_gpu_variants_may_run_elsewhere_the_newest_results_are_kept():
    names = "abc"
    variants, items = planned(*map(cpu, names), *map(gpu, names), most_kept=2)
    for name in names:
        variants.keep(cpu(name), LEFT)
    assert [None, LEFT, LEFT] == [variants.result_for(gpu(name)) for name in names]
    assert items["a-cpu"] is variants.missing_for(gpu("a"))


def test_a_gpu_variant_with_a_wrong_marker_waits_for_nothing():
    wrong = gpu("a")._replace(problem="has no argument 'mim'")
    variants, _ = planned(cpu("a"), wrong)
    assert [] == variants.waiting_for(cpu("a"))
    assert variants.missing_for(wrong) is None
    assert variants.has_gpu_variant(cpu("a"))


@pytest.mark.parametrize(("status", "is_missing"), [("recorded", True), ("error", False), ("skipped", False)])
def test_one_that_failed_or_skipped_here_does_not_run_again(status, is_missing):
    ended = record("a-cpu", status=status, reason=None if status == "recorded" else "why")
    variants, _ = planned(cpu("a"), gpu("a"), records={"a-cpu": ended})
    assert is_missing == (variants.missing_for(gpu("a")) is not None)


def test_a_gpu_variant_that_runs_again_makes_its_cpu_variant_wait_for_it_again():
    variants, items = planned(cpu("a"), gpu("a"))
    variants.release(gpu("a"))
    for _ in range(2):
        assert items["a-cpu"] is variants.missing_for(gpu("a"))
        assert [gpu("a")] == variants.waiting_for(cpu("a"))
