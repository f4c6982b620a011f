"""A scaling test with `ranks` on a rank that does not measure: it makes the calls that rank 0 announces."""

from collections.abc import Callable
from typing import Any

import pytest

from pytest_gpuperf.collection.items import SPEC
from pytest_gpuperf.devices import capabilities
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model import ask
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.plain_text import first_line, message
from pytest_gpuperf.session.ranks.channel import Message
from pytest_gpuperf.session.ranks.group import BODY, RankGroup, begin_at, make_groups
from pytest_gpuperf.session.ranks.results import packed
from pytest_gpuperf.session.ranks.roles import OtherRank, skipped
from pytest_gpuperf.session.run_devices import SKIPS
from pytest_gpuperf.timing.blocks import timed_calls
from pytest_gpuperf.timing.gc_pause import gc_paused
from pytest_gpuperf.work import any_array, inputs
from pytest_gpuperf.work.first_call import Bind
from pytest_gpuperf.work.observed_call import observed_call
from pytest_gpuperf.work.values import snapshot, values_of
from pytest_gpuperf.work.workload import ResettableCall


def serve(item: pytest.Item, bind: Bind, device: TimedDevice, ranks: OtherRank) -> None:
    """Make the calls of a test until rank 0 has measured it; raise what they raise, or why that ended it."""
    if (scaling := item.stash[SPEC].scaling) is not None:
        ranks.begin_body(item)
        make_groups((scaling.counts[0], scaling.count), ranks.number)
    _Server(item, bind, device, ranks).serve()


class _Server:
    """The calls of one test, by the keys that rank 0 has given to them, and its groups by their size.

    Of each group it keeps the last result, as a timed block does on rank 0.
    """

    def __init__(self, item: pytest.Item, bind: Bind, device: TimedDevice, ranks: OtherRank) -> None:
        self._item = item
        self._bind = bind
        self._device = device
        self._ranks = ranks
        self._groups: dict[int, RankGroup] = {}
        self._calls: dict[int, Callable[[], Any]] = {}
        self._results: dict[int, Any] = {}

    def serve(self) -> None:
        """Do what rank 0 says until the test is over."""
        while (command := self._command())["do"] != "over":
            try:
                self._do(command)
            except GpuPerfError as refusal:
                self._say("failed", failed=f"rank {self._ranks.number}: {refusal}", kind="refusal")
                raise _ending(str(refusal), is_skip=self._item.stash[SPEC].demand.bare) from refusal
            except BaseException as error:
                kind = "skip" if isinstance(error, SKIPS) else "error"
                self._say("failed", failed=self._words(error), kind=kind)
                raise
        if (outcome := _outcome(command)) is not None:
            raise outcome

    def _do(self, command: Message) -> None:
        for key in command["drop"]:
            self._calls.pop(key, None)
        group = self._group(command["count"])
        with self._device.context():
            if command["do"] == "call":
                self._call(command, group)
            elif command["do"] == "block":
                self._time_block(command, group)
            else:
                self._show_result(group)

    def _call(self, command: Message, group: RankGroup) -> None:
        """Make one call, and say whether it worked here."""
        key, held, compiled = command["key"], None, self._device.compilations()
        uploads = inputs.UploadTracker(group)
        call = self._bind(uploads) if key == BODY else self._known(key, group)
        observed = observed_call(call, self._device)
        uploads.stop()
        result, holds = observed.result, capabilities.holds(self._device)
        if key == BODY and callable(result):
            made = command["as"]
            is_resettable = ask.is_really(result, ResettableCall)
            self._calls[made] = result.call if is_resettable else result
            if is_resettable:
                self._calls[-made] = result.reset
            arrays = [*uploads.arrays, *inputs.carried_arrays(self._calls[made], group)]
            held = sum(any_array.bytes_of(array) for array in {id(each): each for each in arrays}.values())
            worked = False
        else:
            has_part = any(holds(leaf.value) for leaf in values_of(result, holds))
            worked = observed.observation.worked or has_part
            self._results[group.count] = result
        compiled = self._device.compilations() - compiled
        self._say("done", worked=worked, inputs=held, compiled=compiled)

    def _time_block(self, command: Message, group: RankGroup) -> None:
        """Time a block of calls from the moment on that rank 0 says, and tell it how long they took."""
        call, compiled, started = self._known(command["key"], group), self._device.compilations(), None

        def meet() -> None:
            nonlocal started
            self._say("ready")
            started = begin_at(self._expected("go")["at"])

        with gc_paused():
            took, result = timed_calls(
                self._device, call, command["calls"], empty_wait=command["empty_wait"], meet=meet
            )
        self._results[group.count] = result
        compiled = self._device.compilations() - compiled
        self._say("took", took=took, started=started, compiled=compiled)

    def _show_result(self, group: RankGroup) -> None:
        """Send the values of the last result to rank 0, which compares them."""
        device = self._device
        holds, unpack = capabilities.holds(device), capabilities.unpack(device)
        values = snapshot(values_of(self._results.get(group.count), holds, unpack), holds, device.asnumpy)
        places, data = packed(values)
        self._say("result", data, places=places)

    def _group(self, count: int) -> RankGroup:
        if count not in self._groups:
            self._groups[count] = RankGroup(self._device, self._ranks.number, count, self._barrier)
        return self._groups[count]

    def _known(self, key: int, group: RankGroup) -> Callable[[], Any]:
        if key == BODY:
            return self._bind(group)
        if key not in self._calls:
            raise GpuPerfError("the test has returned a callable on rank 0, and none like it here")
        return self._calls[key]

    def _barrier(self) -> None:
        self._say("barrier")
        self._expected("pass")

    def _say(self, what: str, data: bytes = b"", **facts: Any) -> None:
        self._ranks.answer(self._item, {"said": what, **facts}, data)

    def _command(self) -> Message:
        return self._ranks.command(self._item)

    def _expected(self, what: str) -> Message:
        """Return a command that can be this one alone, unless rank 0 has ended the test."""
        command = self._command()
        if command["do"] == "over":
            raise _outcome(command) or GpuPerfError("rank 0 has ended the test within this call")
        if command["do"] != what:
            raise GpuPerfError(
                f"this rank waits in ranks.barrier(), and rank 0 goes on ({command['do']}): all ranks must "
                "call it as often"
            )
        return command

    def _words(self, error: BaseException) -> str:
        number = self._ranks.number
        if isinstance(error, SKIPS):
            return f"rank {number}: {message(error) or 'skipped in the test'}"
        return f"rank {number} raised {first_line(error)}"


def _outcome(command: Message) -> BaseException | None:
    """Return what ends a test here, where rank 0 has not measured it to its end."""
    if (cause := command["cause"]) is None:
        return None
    return _ending(cause, is_skip=command["is_skip"])


def _ending(reason: str, *, is_skip: bool) -> BaseException:
    return skipped(reason) if is_skip else pytest.fail.Exception(reason, pytrace=False)
