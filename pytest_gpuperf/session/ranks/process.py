"""Processes of a launch as other ranks know them: whether they have ended, and signals that end them."""

import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from socket import gethostname

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
"""The signal that ends any process; Windows, where none is sent, does not have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where rank 0 listens, the token that it asks for, and its process.

    `start` is when that began, in ticks since the system did, and `container` tells which processes it sees,
    on which machine; `start` is empty where the system does not show it.
    """

    port: int
    token: str
    process: int
    start: str
    container: str

    @classmethod
    def of_this_process(cls, port: int, token: str) -> "Place":
        """Return a place of this process."""
        process = os.getpid()
        return cls(port=port, token=token, process=process, start=_start(process), container=_container())

    @classmethod
    def read(cls, text: str) -> "Place | None":
        """Return the place that a text names; None where it names none."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            return None

    @property
    def text(self) -> str:
        """What others read of it."""
        return json.dumps(asdict(self))

    @property
    def is_gone(self) -> bool:
        """Whether its process has certainly ended."""
        if self.container != _container():
            return False
        if self.start:
            return _start(self.process) != self.start
        if sys.platform == "win32":  # where os.kill ends the process that it asks for
            return False
        try:
            os.kill(self.process, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass
        return False

    def signal(self, number: int) -> None:
        """Send a signal to its process, if that is certainly the one that has its number here."""
        if sys.platform != "win32" and self.start and self.container == _container() and not self.is_gone:
            with suppress(OSError):
                os.kill(self.process, number)


def this_process() -> str:
    """Return what `send_signal` and `is_gone_or_unknown` know this process by."""
    return Place.of_this_process(0, "").text


def send_signal(process: str | None, number: int) -> None:
    """Send a signal to the process of another rank, as far as that is certainly the one."""
    if (place := Place.read(process or "")) is not None:
        place.signal(number)


def is_gone_or_unknown(process: str | None) -> bool:
    """Return whether the process of another rank has ended, or cannot be known."""
    place = Place.read(process or "")
    return place is None or place.container != _container() or place.is_gone


def _start(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except (OSError, ValueError, IndexError):
        return ""


def _container() -> str:
    """Return which processes this one sees, on which machine: two may have namespaces of one number."""
    try:
        machine = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{Path('/proc/self/ns/pid').readlink()} {machine}"
    except OSError:
        return gethostname()
