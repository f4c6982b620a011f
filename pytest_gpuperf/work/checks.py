"""From the results of single calls to whether the timed work was the required work."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Literal

from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.clock import seconds_between
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.devices.torch_and_jax import other_library
from pytest_gpuperf.model.demand import Demand
from pytest_gpuperf.model.errors import GpuPerfError, UnknownResult, is_outcome
from pytest_gpuperf.model.measurement import ResultCheck
from pytest_gpuperf.model.record import Note
from pytest_gpuperf.model.units import first_few
from pytest_gpuperf.work import inputs, result_check
from pytest_gpuperf.work.any_array import describe
from pytest_gpuperf.work.lazy import is_lazy, why_lazy
from pytest_gpuperf.work.values import Leaf, Result, incomparable, snapshot, values_of
from pytest_gpuperf.work.workload import Workload

_DISAGREEMENT_HINT = (
    "make the same values on both devices: create the random generator, with a seed, inside the test, and "
    "draw before the call; rtol and atol compare element by element, and check=False compares nothing"
)
_ALIKE_HINTS: dict[result_check.Difference, str] = {
    "labels": "their numbers agree: give both results the same units and dimensions",
    "signs": (
        "they agree up to their signs, which is an error unless signs are free, as those of eigenvectors: "
        "then return abs(v)"
    ),
    "order": (
        "they have the same values in another order, which is an error unless the order is free: then return "
        "the sorted values"
    ),
}
_MODE_HINT = "the {} rounds float32 more than the dtype says ({}): turn that off where more digits are needed"
_OTHER_LIBRARY_HINT = (
    "compare {library} with itself: gpuperf_gpu = {library} in the ini file, or --gpuperf-gpu={library}:cpu "
    "without a GPU"
)
_COMPARABLE_HINT = "return dense arrays, numbers or text, in tuples, lists, dicts or dataclasses"
_CHANGED_ONCE = (
    "the first call on the {on} changed an array ({array}), and later ones left it as it was: if they read "
    "it, they may find their work done, as in one that is sorted in place; then work on a copy made inside "
    "the call"
)
_LONGEST_SETUP = 1.0  # seconds: a longer one is not repeated for a note
_NOT_KNOWN = (
    "time was up before it was known whether calls on the {on} overwrite an array ({array}) or its reset "
    "forgets it; allow more time with max_time"
)

When = Literal["before", "after"]
"""When results were compared: before or after the timed calls."""


class ResultChecks:
    """The results of both devices, compared before timing and after it; a disagreement stays.

    `runs_products` tells whether the GPU multiplies or convolves: nothing else is computed in a mode that
    rounds more. Where that is not known (None), it may have. `compared_arrays` is whether results agreed in
    more than single numbers. `degenerate` are the places that had one value alone on both devices, and which.
    Checks that are not asked for compare nothing, and where `compares_devices` is false that is as it should
    be. Work that was not the required work is a GpuPerfError.
    """

    def __init__(self, demand: Demand) -> None:
        self.outcome: ResultCheck | None = None
        self.elapsed: float | None = None
        self.looking = 0.0  # seconds in which inputs and results came to the host, and were looked at
        self.longest_look = 0.0  # seconds for one result
        self.is_asked = demand.check
        self.compares_devices = True
        self._demand = demand
        self._names: tuple[str, str] | None = None
        self._hints = _DISAGREEMENT_HINT
        self.runs_products: Callable[[], bool | None] = lambda: None
        self.degenerate: list[tuple[str, str]] = []
        self._found: When = "before"
        self.compared_arrays = False

    @property
    def differ(self) -> bool:
        """Whether the devices returned different results."""
        return self.outcome is not None and self.outcome.agreed is False

    @property
    def disagreement(self) -> str | None:
        """How the devices disagree, if they do."""
        if self.outcome is None or not self.differ:
            return None
        return f"the devices disagree {self._found} timing: {self.outcome.reason}; {self._hints}"

    def outlasting_refusals(self) -> AbstractContextManager[None]:
        """Suppress refusals of work whose disagreement is known: that is the reason why the test fails."""
        return suppress(GpuPerfError) if self.differ else nullcontext()

    def copy_to_host(self, result: Any, device: TimedDevice, dtypes: Iterable[str] = ()) -> list[Leaf]:
        """Return a result's values on the host; refuse a lazy result, and one that cannot be compared.

        `dtypes` are those that the workload is known to use. The result may be one that was walked before.
        """
        started = device.clock()
        holds, unpack = capabilities.holds(device), capabilities.unpack(device)
        if type(result) is not Result:
            parts: Iterable[Leaf] = values_of(result, holds, unpack)
        elif unpack is None:
            parts = result.values
        else:  # only the host needs the contents of a data frame
            parts = values_of(result.whole, holds, unpack)
        values = snapshot(parts, holds, device.asnumpy, device.info.reduced_eps, dtypes)
        seconds = seconds_between(started, device.clock())
        self.looking += seconds
        self.longest_look = max(self.longest_look, seconds)
        for leaf in incomparable(values):
            value = leaf.value
            is_copied = self._demand.transfer != "never"
            what = f"{leaf.path} is of type {type(value).__name__}, which"
            if is_lazy(value):
                raise GpuPerfError(why_lazy(leaf.place, value))
            library = other_library(value, device)
            hint = _OTHER_LIBRARY_HINT.format(library=library)
            if library == "jax" or (library == "torch" and not value.is_cpu):
                raise UnknownResult(f"{what} {device.backend} does not wait for; {hint}", library)
            if self._demand.bare or not (self._demand.check or is_copied):
                continue
            remedy = f"{_COMPARABLE_HINT}, or {hint}" if library else _COMPARABLE_HINT
            remedy = remedy if is_copied else f"{remedy} or pass check=False"
            raise UnknownResult(f"{what} can be neither compared nor copied; {remedy}", library)
        return values

    def require_same_inputs(
        self,
        workload: Workload,
        after_reset: inputs.AfterReset | None = None,
        has_time: Callable[[], bool] = lambda: True,
    ) -> tuple[Note, ...]:
        """Refuse a workload that goes on to modify its inputs; return notes on those that it changed once.

        One with a reset may modify what that restores: calls show it, which are made while it `has_time`.
        """
        if after_reset is not None:
            changes = after_reset.changes(has_time)
        else:
            changes = inputs.changes_of(workload.inputs, workload.call, workload.device, workload.state)
        mutated = next((change.described for change in changes if change.goes_on), None)
        if mutated is not None and workload.restore is not None:
            raise GpuPerfError(
                f"the workload's reset does not restore what calls change ({mutated}), so repeated blocks do "
                "not do the same work; copy the values back into that array, from copies made before"
            )
        if mutated is not None:
            raise GpuPerfError(
                f"the workload modifies its input ({mutated}), so repeated calls do not do the same work; "
                "work on a copy made inside it, write to another array, or restore it with "
                "gpuperf.workload(call, reset=...)"
            )
        changes = _of_values(changes, workload, has_time)
        on = workload.device.info.noun
        alike: dict[str, list[str]] = {}  # of one sentence the arrays that it is said of
        for change in changes:
            sentence = _NOT_KNOWN if change.goes_on is None else _CHANGED_ONCE
            alike.setdefault(sentence, []).append(change.described)
        texts = (text.format(on=on, array=first_few(arrays)) for text, arrays in alike.items())
        return tuple(Note(code="work_in_doubt", text=text) for text in texts)

    def require_device_work(self, gpu: Workload) -> None:
        """Refuse a workload that left the GPU idle."""
        if gpu.did_device_work:
            return
        if gpu.device.submit is not None:
            raise GpuPerfError(
                f"nothing was computed on {gpu.device.name}: {gpu.device.backend} computes only what a call "
                "returns or evaluates, and this one did neither; return the arrays that it computes"
            )
        library = gpu.other_library
        remedy = gpu.device.idle_remedy if library is None else _OTHER_LIBRARY_HINT.format(library=library)
        raise GpuPerfError(
            f"no work reached {gpu.device.name}: the result is on the host and the device was idle; {remedy}"
        )

    def require_same_result(
        self, first: list[Leaf], last: list[Leaf], workload: Workload | None = None
    ) -> None:
        """Refuse work whose result changes: from call to call, or although its state was restored."""
        if result_check.compare(first, last, self._demand).agreed is not False:
            return
        when, also, copied = "from call to call", "", ""
        if workload is not None and workload.restore is not None:
            when = "after each reset"
        elif workload is not None and (changed := _written(workload)):
            also = f" (calls have written to {first_few(changed)})"
            copied = "work on a copy made inside it, "
        raise GpuPerfError(
            f"the workload's result changes {when}{also}, so repeated calls do not do the same work; {copied}"
            "restore all that it changes, an optimizer's state too, with gpuperf.workload(call, "
            "reset=...), of the fixture gpuperf, draw random numbers before the call, with dropout off, "
            "return no time, or pass check=False"
        )

    def compare(self, cpu: list[Leaf], gpu: list[Leaf], device: TimedDevice, when: When) -> None:
        """Compare the devices' results, before or after timing, unless they have differed already."""
        if self.differ:
            return
        started = device.clock()
        names = self._names or ("the CPU", f"the {device.info.noun}")
        compared = result_check.compare(cpu, gpu, self._demand, names)
        may_be_rounded = any(leaf.own_eps is not None for leaf in gpu)
        if compared.agreed and may_be_rounded:
            own = [leaf._replace(eps=leaf.eps if leaf.own_eps is None else leaf.own_eps) for leaf in gpu]
            strict = result_check.compare(cpu, own, self._demand, names)
            if strict.agreed or self.runs_products() is False:
                compared, may_be_rounded = strict, False
        self.compared_arrays = compared.agreed is True and any(
            leaf.value.size > 1 and leaf.cells is None for leaf in gpu
        )
        self.degenerate = list(result_check.degenerate(cpu, gpu))
        self.elapsed = (self.elapsed or 0.0) + seconds_between(started, device.clock())
        if self.outcome is None or compared.agreed is False:
            self.outcome = compared
            self._found = when
        modes = [mode for mode in (device.info.reduced_precision, device.info.reduced_convolutions) if mode]
        if modes and may_be_rounded:
            self._hints = f"{_MODE_HINT.format(device.info.noun, ', '.join(modes))}; {_DISAGREEMENT_HINT}"
        if compared.agreed is False and (alike := result_check.same_up_to(cpu, gpu, self._demand)):
            self._hints = _ALIKE_HINTS[alike]


def _written(workload: Workload) -> list[str]:
    """Return the arrays that calls have changed so far, as messages name them."""
    with workload.device.context():
        found = inputs.changed((*workload.inputs, *workload.state), workload.device)
    return [describe(entry.array()) for entry in found]


def _of_values(
    changes: tuple[inputs.Change, ...], workload: Workload, has_time: Callable[[], bool]
) -> tuple[inputs.Change, ...]:
    """Return the changes without those of buffers that had no values: the body runs again to show it."""
    is_suspected = any(change.goes_on is False for change in changes)
    is_quick = (workload.setup or 0.0) <= _LONGEST_SETUP
    if not is_suspected or workload.set_up_again is None or not is_quick or not has_time():
        return changes
    try:
        call = workload.set_up_again()
    except Exception as error:
        fault = capabilities.fault(workload.device, error)
        if is_outcome(error) or (fault is not None and fault.kind != "out_of_memory"):
            raise
        return changes  # a body that need not run twice, or has no room beside what it made before
    return tuple(
        change
        for change in changes
        if change.goes_on is not False or inputs.had_values(change, call, workload.device)
    )
