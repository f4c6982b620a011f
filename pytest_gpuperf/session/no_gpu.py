"""Skips for want of a GPU, or of its library: how they end a test, and what their reasons say."""

import pytest

from pytest_gpuperf.model.record import ReasonCode, Verdict

ON_CPU_BY_DEFAULT = (
    "no GPU: {library} runs this test on the CPU, and nothing is compared; try --gpuperf-gpu={emulated} "
    "(emulated)"
)
OTHER_LIBRARY = (
    "no GPU chosen for {library}: gpuperf_gpu = {library} in the ini file (keras for a test of Keras) "
    "compares its CPU and its GPU; the test computes with {library}{unseen}"
)
EMULATE_IT = "; without a GPU, --gpuperf-gpu={library}:cpu emulates one"
NAMED = (
    "use device.native, of the fixture device: the test's own parameter names a device that is not here "
    "({}), and {} emulates one only so"
)
UNSEEN = ", so that its calls were not looked at"


class NoDevice(pytest.skip.Exception):  # type: ignore[misc, name-defined]  # to mypy it is a variable
    """Skips a test because a device cannot be used."""

    # As pytest's own skip is called: pytest shows the name of any other exception before the reason.
    __module__ = "builtins"
    __qualname__ = "Skipped"

    def __init__(self, reason: str, code: ReasonCode = "no_gpu") -> None:
        super().__init__(reason, _use_item_location=True)
        self.code = code


def skip(reason: str) -> Verdict:
    """Return the verdict of a test that is skipped, since it has no GPU."""
    return Verdict(status="skipped", reason=reason, reason_code="no_gpu")
