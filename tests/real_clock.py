"""Suites on two devices with the real clock, and processes that hold the measurement lock."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest_gpuperf

HOLD = """
import sys, time
from pathlib import Path
from pytest_gpuperf.timing.lock import MeasurementLock
with MeasurementLock(Path(sys.argv[1])).acquire():
    print("held", flush=True)
    while sys.argv[3:] and not Path(sys.argv[3]).exists():
        time.sleep(0.01)
    time.sleep(float(sys.argv[2]))
"""


def process(source, *arguments, **options):
    command = [sys.executable, "-c", source, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(Path(pytest_gpuperf.__file__).parents[1])}
    return subprocess.Popen(
        command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options
    )


@contextmanager
def held(file, seconds, *, after=None):
    """Let another process hold the lock for some seconds, which begin when the file `after` is there."""
    with process(HOLD, file, seconds, *filter(None, [after])) as holder:
        assert holder.stdout.readline() == "held\n"
        try:
            yield holder
        finally:
            holder.kill()


REAL_TIME = """
    from msgspec.structs import replace
    from pytest_gpuperf.devices.host import HostDevice
    from pytest_gpuperf.devices.protocol import Backend

    class Second(HostDevice):
        kind = "gpu"
        backend = "hosts"

        def __init__(self):
            super().__init__("second host")
            self.info = replace(self.info, kind="gpu", emulated=True)

    class Hosts(Backend):
        name = "hosts"

        def check(self, selector):
            pass

        def gpu(self, selector):
            return Second()

        def cpu(self):
            return HostDevice("first host")

    def pytest_gpuperf_devices():
        return [Hosts()]
"""

NAP = """
    import time
    from pathlib import Path
    import pytest

    @pytest.mark.speedup
    def test_nap(device):
        Path("begun").touch()
        return lambda: time.sleep({seconds})
"""
