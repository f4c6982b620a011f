"""From what a test asks for to a device, or to the end of the test: a skip with the reason, or a failure."""

import unittest
import warnings
from typing import NoReturn

import pytest

from pytest_gpuperf.devices.device_parameter import DeviceSpec
from pytest_gpuperf.devices.group import DeviceGroup
from pytest_gpuperf.devices.machine import Machine
from pytest_gpuperf.devices.protocol import TimedDevice
from pytest_gpuperf.model import units
from pytest_gpuperf.model.demand import RunOptions
from pytest_gpuperf.model.errors import BrokenGpuWarning, TooFewDevices, Unavailable
from pytest_gpuperf.model.record import ReasonCode
from pytest_gpuperf.session.no_gpu import NoDevice
from pytest_gpuperf.session.ranks.group import MeasuredRanks, RankGroup
from pytest_gpuperf.session.ranks.roles import FirstRank, Ranks

SKIPS = (pytest.skip.Exception, pytest.xfail.Exception, unittest.SkipTest)


class RunDevices:
    """The devices of a run: opened for a test, which ends where it cannot have the one that it needs.

    A GPU that is there but broken fails the test where the run names its library; under `auto` it is a
    warning. `without_ranks` is the option with which a run starts no ranks, if it has one.
    """

    def __init__(
        self, machine: Machine, options: RunOptions, ranks: Ranks, without_ranks: str | None = None
    ) -> None:
        self.machine = machine
        self.starts_ranks = ranks.launch is None and without_ranks is None
        self._without_ranks = without_ranks
        self._options = options
        self._ranks = ranks

    def gpu(self, device: DeviceSpec | None = None) -> TimedDevice:
        """Return the GPU, or end the test: a skip with the reason, an error where a GPU is required."""
        if (reason := self.look_for_gpu(device)) is not None:
            raise NoDevice(reason)
        return self.machine.gpu(device)

    def none(self, reason: str) -> NoReturn:
        """End a test that has no GPU for a reason of its own."""
        self._fail_where_required(reason)
        raise NoDevice(reason)

    def cpu(self, device: DeviceSpec | None = None) -> TimedDevice:
        """Return the CPU, or end the test: a skip where its library cannot be used."""
        try:
            return self.machine.cpu(device)
        except Unavailable as cause:
            reason, must_fail = str(cause), cause.broken and self._is_chosen(device)
        if must_fail:
            pytest.fail(f"the library of {self.machine.choice.setting} is broken: {reason}", pytrace=False)
        self._warn_of_broken_gpus()
        raise NoDevice(reason, "no_library")

    def group(self, count: int) -> DeviceGroup:
        """Return so many GPUs as one, or end the test: a skip with the reason, a failure where required."""
        self.gpu()
        try:
            return self.machine.group(count)
        except Unavailable as cause:
            reason = str(cause)
            code: ReasonCode = "too_few_gpus" if isinstance(cause, TooFewDevices) else "no_gpu"
        self._fail_where_required(reason)
        raise NoDevice(reason, code)

    def ranks(self, count: int, *, meet: bool = True) -> RankGroup:
        """Return so many ranks of the launch as one device; end the test where it has not so many.

        Where they do not `meet`, as in a test that is not measured, there is this process alone.
        """
        device, launch = self.gpu(), self._ranks.launch
        self.require_ranks(count)
        if count > 1 and isinstance(self._ranks, FirstRank) and launch is not None and meet:
            return MeasuredRanks(device, self._ranks, launch, count)
        if count > 1:
            raise NoDevice("ranks meet only in a test that is measured", "too_few_ranks")
        return RankGroup(device, 0, 1, lambda: None)

    def await_ranks(self) -> None:
        """Wait until all ranks of the launch have set up the test; raise how one of them has ended it."""
        if isinstance(self._ranks, FirstRank):
            self._ranks.await_all()

    def settle_ranks(self) -> None:
        """Read what other ranks say of the last call of a test; raise how one has ended it."""
        if isinstance(self._ranks, FirstRank):
            self._ranks.calls.settle()

    def require_ranks(self, count: int) -> None:
        """End a test that needs more ranks than there can be: a skip; a failure if a GPU is required."""
        launch = self._ranks.launch
        code: ReasonCode = "too_few_gpus" if self.starts_ranks else "too_few_ranks"
        start = f"start torchrun --nproc-per-node {count} -m pytest, or mpiexec -n {count} python -m pytest"
        if self.starts_ranks:
            most = self.machine.most_processes()
            reason = self._why_no_more(most)
        elif launch is not None:
            most, reason = launch.ranks, f", and this launch has {launch.ranks}; {start}"
        else:
            most, reason = 1, f", and with {self._without_ranks} pytest starts none; leave it out, or {start}"
        if count > most:
            reason = f"{units.count(count, 'rank')} are needed{reason}"
            self._fail_where_required(reason)
            raise NoDevice(reason, code)

    def _why_no_more(self, most: int) -> str:
        """Return why there are no more processes with a GPU each, as the end of a sentence."""
        if self.machine.gpu().info.emulated:
            return f": where a GPU is emulated, the processors are enough for {most}"
        if self.machine.choice.selector:
            named = self.machine.choice.setting
            return f", each with a GPU of its own, and {named} names one: leave out its number"
        return f": each has a GPU of its own, of which there are {most}"

    def look_for_gpu(self, device: DeviceSpec | None = None) -> str | None:
        """Open a test's GPU; return why it gets none, or None; fail it where one is required or was lost."""
        if self.machine.lost:
            pytest.fail(self.machine.lost, pytrace=False)
        reason, must_fail = None, False
        try:
            gpu = self.machine.gpu(device)
        except Unavailable as cause:
            reason, must_fail = str(cause), cause.broken and self._is_chosen(device)
        else:
            if gpu.info.emulated:  # of a backend that does not say so at the start
                self._fail_where_required(f"{gpu.name} only emulates a GPU")
        if reason is not None:
            self._fail_where_required(reason)
        if must_fail:
            pytest.fail(f"the GPU of {self.machine.choice.setting} is broken: {reason}", pytrace=False)
        self._warn_of_broken_gpus()
        return reason

    def _fail_where_required(self, reason: str) -> None:
        if self._options.require_gpu:
            pytest.fail(f"a GPU is required (--gpuperf-require-gpu): {reason}", pytrace=False)

    def _is_chosen(self, device: DeviceSpec | None) -> bool:
        """Return whether --gpuperf-gpu names the library of a device."""
        name = self._options.gpu.partition(":")[0]
        return name not in ("auto", "none") and (device is None or device.library in ("", name))

    def _warn_of_broken_gpus(self) -> None:
        """Warn once of each GPU that is there but cannot be used: tests on it are skipped."""
        found = self.machine.broken
        while found:
            warnings.warn(BrokenGpuWarning(f"no test uses this GPU: {found.pop(0)}"), stacklevel=2)
