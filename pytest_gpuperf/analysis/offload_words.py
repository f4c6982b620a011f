"""From what offloading was found to do to the sentence that says so."""

from pytest_gpuperf.analysis.verdict import ratio
from pytest_gpuperf.model import units
from pytest_gpuperf.model.measurement import Speedup, Transfer
from pytest_gpuperf.model.offload import BreakEven, GpuLimits, Link, Price

__all__ = ["sentence", "without_gpu"]

_QUIET = "a quiet machine, or fewer BLAS threads (OPENBLAS_NUM_THREADS), would tell"
_HEADS = {True: "worth it", False: "not worth it", None: "in doubt whether it is worth it"}


def sentence(
    *,
    worth: bool | None,
    speedup: Speedup,
    gated: str,
    price: Price,
    even: BreakEven | None,
    always: Speedup | None,
    pays_always: bool,
    transfer: Transfer | None,
) -> str:
    """Return whether moving the work pays, in one sentence: time, copies, money."""
    parts = [f"{_HEADS[worth]}: {ratio(speedup)} {gated}"]
    if worth is not False:
        copies = _with_copies(always) if pays_always else _copies(even, always, transfer)
        parts += filter(None, [copies, _money(price)])
    return "; ".join(parts)


def without_gpu(
    limits: GpuLimits | None, price: float, hopeless: Link | None, size: int | None, doubt: str | None
) -> str:
    """Return what a GPU that nobody has measured must reach, and whether its copies alone forbid that."""
    parts = ["no GPU was measured"]
    if doubt is not None:
        parts.append(f"the CPU's times do not say what one must reach: {doubt}; {_QUIET}")
    if limits is not None and limits.price is not None:
        most = f"at most {units.seconds(limits.price)} to save money at {price:g} times the price"
        if limits.demand is not None:
            most = f"at most {units.seconds(limits.demand)} for the demand, and {most}"
        parts = [f"no GPU was measured: a call may take {most}"]
    if hopeless is not None and size is not None:
        parts.append(
            f"with copies at every call it cannot pay on any link: on {hopeless.name} they alone take "
            f"{units.seconds(hopeless.seconds)} for {units.size(size)}"
        )
    return "; ".join(parts)


def _with_copies(always: Speedup | None) -> str | None:
    return f"even with copies at every call ({ratio(always)})" if always else None


def _copies(even: BreakEven | None, always: Speedup | None, transfer: Transfer | None) -> str | None:
    if transfer is None or not transfer.bytes or always is None:
        return None
    if even is None or even.transfer is None:
        return None
    moved = units.size(transfer.bytes)
    number = f"{even.transfer.value:.0f}"
    calls = "1 call" if number == "1" else f"{number} calls"
    return f"its copies ({moved}) are earned back after {calls} on the same data"


def _money(price: Price) -> str | None:
    saving = price.saving_percent
    if saving is None:
        return None
    at = f"at {price.ratio:g} times the price"
    if price.saves is None:
        return f"whether it saves money {at} is in doubt"
    if price.saves:
        return f"{at} it saves {saving.value:.0f} % of the bill {_ends(saving.low, saving.high)}"
    higher = [None if end is None else -end for end in (saving.high, saving.low)]
    return f"{at} the bill is {-saving.value:.0f} % higher {_ends(*higher)}"


def _ends(low: float | None, high: float | None) -> str:
    return f"[{', '.join('?' if end is None else f'{end:.0f}' for end in (low, high))}]"
