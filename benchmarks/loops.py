"""Hand-written loops on the default SYCL queue, as users write them: from arrays to medians in seconds."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

__all__ = ["Copied", "call_median", "copy_medians"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """The seconds that an array takes to the device, and back."""

    up: float
    down: float


def call_median(host: Any, work: Callable[[Any], Any], samples: int, calls: int = 1) -> float:
    """Return the median over blocks of the mean time of a call on an array's copy, each waited for.

    With one call a block it is the median of calls.
    """
    import dpnp

    data = dpnp.array(host)
    queue = data.sycl_queue
    times = []
    for _ in range(samples):
        queue.wait()
        started = perf_counter()
        for _ in range(calls):
            work(data)
            queue.wait()
        times.append((perf_counter() - started) / calls)
    return median(times)


def copy_medians(host: Any, samples: int) -> Copied:
    """Return the median times of an array's copies, up and down by turns.

    The copy of the turn before is given back while the next is made, as in any loop that assigns one.
    """
    import dpnp

    data = dpnp.array(host)
    queue = data.sycl_queue
    ups, downs = [], []
    for _ in range(samples):
        queue.wait()
        started = perf_counter()
        data = dpnp.array(host)
        queue.wait()
        ups.append(perf_counter() - started)
        started = perf_counter()
        dpnp.asnumpy(data)
        downs.append(perf_counter() - started)
    return Copied(up=median(ups), down=median(downs))
