"""The values that pass from room to room: frozen, in seconds and bytes; standard library only.

Each part is loaded with the first of its values: pytest collects with a few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_gpuperf.model.asked import (
        Demand,
        Family,
        Kind,
        Outputs,
        Pairing,
        Plan,
        Selection,
        Settlement,
        Source,
        Transfers,
    )
    from pytest_gpuperf.model.compared import (
        METRICS,
        Commit,
        Comparison,
        Gate,
        GatePlan,
        Metric,
        Outcome,
        Tolerance,
    )
    from pytest_gpuperf.model.errors import (
        Fault,
        GpuPerfError,
        InconclusiveWarning,
        NotComparableWarning,
        Unavailable,
    )
    from pytest_gpuperf.model.measured import (
        Copies,
        DeviceInfo,
        Estimate,
        Inspection,
        Measurement,
        Memory,
        Neighbours,
        Parity,
        Round,
        Speedup,
        Transfer,
    )
    from pytest_gpuperf.model.offloaded import (
        BreakEven,
        Diagnosis,
        GpuLimits,
        Link,
        Offload,
        Point,
        Price,
        Regime,
        Threshold,
    )
    from pytest_gpuperf.model.recorded import (
        DESELECTED,
        ENDED,
        STATUSES,
        Clocks,
        Environment,
        Merged,
        Record,
        Run,
        Status,
        ThreadPool,
        Verdict,
    )

__all__ = [
    "DESELECTED",
    "ENDED",
    "METRICS",
    "STATUSES",
    "BreakEven",
    "Clocks",
    "Commit",
    "Comparison",
    "Copies",
    "Demand",
    "DeviceInfo",
    "Diagnosis",
    "Environment",
    "Estimate",
    "Family",
    "Fault",
    "Gate",
    "GatePlan",
    "GpuLimits",
    "GpuPerfError",
    "InconclusiveWarning",
    "Inspection",
    "Kind",
    "Link",
    "Measurement",
    "Memory",
    "Merged",
    "Metric",
    "Neighbours",
    "NotComparableWarning",
    "Offload",
    "Outcome",
    "Outputs",
    "Pairing",
    "Parity",
    "Plan",
    "Point",
    "Price",
    "Record",
    "Regime",
    "Round",
    "Run",
    "Selection",
    "Settlement",
    "Source",
    "Speedup",
    "Status",
    "ThreadPool",
    "Threshold",
    "Tolerance",
    "Transfer",
    "Transfers",
    "Unavailable",
    "Verdict",
]

_PARTS = {
    "asked": "Demand Family Kind Outputs Pairing Plan Selection Settlement Source Transfers",
    "compared": "METRICS Commit Comparison Gate GatePlan Metric Outcome Tolerance",
    "errors": "Fault GpuPerfError InconclusiveWarning NotComparableWarning Unavailable",
    "measured": "Copies DeviceInfo Estimate Inspection Measurement Memory Neighbours Parity Round Speedup "
    "Transfer",
    "offloaded": "BreakEven Diagnosis GpuLimits Link Offload Point Price Regime Threshold",
    "recorded": "DESELECTED ENDED STATUSES Clocks Environment Merged Record Run Status ThreadPool Verdict",
}
_PART_OF = {name: part for part, names in _PARTS.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _PART_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_PART_OF[name]}"), name)
    globals()[name] = value  # the next look does not come here
    return value
