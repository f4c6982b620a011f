"""Where the ranks of a launch find rank 0: in a file of their machine, or on several in torchrun's store."""

import os
import socket
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from pytest_gpuperf.model.launch import Rank
from pytest_gpuperf.model.plain_text import first_line
from pytest_gpuperf.session.ranks.process import Place

_STORE = 30.0  # seconds for an answer of torchrun's store


class Meeting(ABC):
    """Where rank 0 leaves its place for the others, which reach it at `host`.

    Each method may raise OSError.
    """

    host = "127.0.0.1"

    def listen(self) -> socket.socket:
        """Return the socket on which rank 0 listens: of this machine alone."""
        return socket.create_server((self.host, 0))

    @abstractmethod
    def publish(self, text: str) -> None:
        """Leave the text of a place."""

    @abstractmethod
    def read(self) -> str:
        """Return the text that was left last."""

    @abstractmethod
    def withdraw(self, text: str) -> None:
        """Remove a text, unless another one has taken its place."""


class FileMeeting(Meeting):
    """A file in a folder that is the user's alone; OSError if no such folder can be used."""

    def __init__(self, key: str) -> None:
        self._file = file_of(key)

    def publish(self, text: str) -> None:
        """Write the file, in the place of that of an earlier launch."""
        _remove_old(self._file.parent)
        new = self._file.with_suffix(f".{os.getpid()}")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        new.replace(self._file)  # a rank reads the whole text, or that of an earlier launch

    def read(self) -> str:
        """Return what the file says, which may be of an earlier launch."""
        try:
            return self._file.read_text(encoding="utf-8")
        except ValueError as error:
            raise OSError(f"{self._file} is no text") from error

    def withdraw(self, text: str) -> None:
        """Remove the file, unless it is that of a later launch."""
        with suppress(OSError):
            if self.read() == text:
                self._file.unlink()


class StoreMeeting(Meeting):
    """The store of torchrun's agents, at the address that all ranks know; rank 0 is on that machine."""

    def __init__(self, key: str) -> None:
        self.host = os.environ["MASTER_ADDR"]
        port = int(os.environ["MASTER_PORT"])
        try:
            from torch.distributed import PrefixStore, TCPStore
        except ImportError as error:
            raise OSError(first_line(error)) from error
        limit = timedelta(seconds=_STORE)
        store = _answer(lambda: TCPStore(self.host, port, is_master=False, timeout=limit))
        self._store: Any = PrefixStore(f"pytest-gpuperf/{key}", store)

    def listen(self) -> socket.socket:
        """Return the socket on which rank 0 listens: at all addresses of the machine."""
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", 0))

    def publish(self, text: str) -> None:
        """Set the text."""
        _answer(lambda: self._store.set("place", text))

    def read(self) -> str:
        """Return the text, once there is one."""
        if not _answer(lambda: self._store.check(["place"])):
            raise FileNotFoundError("rank 0 has not come")
        text: bytes = _answer(lambda: self._store.get("place"))
        return text.decode()

    def withdraw(self, text: str) -> None:
        """Leave the text: the store ends with its launch."""


def _answer(ask: Callable[[], Any]) -> Any:
    """Return what a store answers; raise OSError in place of the RuntimeError that it raises."""
    try:
        return ask()
    except RuntimeError as error:
        raise OSError(first_line(error)) from error


def of_launch(rank: Rank) -> Meeting:
    """Return where the ranks of a launch meet; raise OSError if they cannot."""
    return FileMeeting(rank.key) if rank.launch.is_on_one_machine else StoreMeeting(rank.key)


def _remove_old(folder: Path) -> None:
    """Remove the files of launches whose rank 0 was killed."""
    for file in folder.iterdir():
        with suppress(OSError, ValueError):
            place = Place.read(file.read_text(encoding="utf-8"))
            if place is not None and place.is_gone:
                file.unlink()


def file_of(key: str) -> Path:
    """Return the launch's file in the user's private folder; raise OSError if no such folder can be used."""
    name = sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    problem = None
    for folder in _folders():
        try:
            return _private(folder) / name
        except OSError as error:
            problem = problem or error
    assert problem is not None  # noqa: S101 - there is a folder to try
    raise problem


def _folders() -> list[Path]:
    """Return the folders to try, the same ones in all ranks, whose TMPDIR or XDG_RUNTIME_DIR may differ."""
    name = "pytest-gpuperf-ranks"
    if sys.platform == "win32":  # where the folder for temporary files is one user's
        return [Path(gettempdir(), name)]
    user = os.getuid()
    # Another user may have taken the name in /tmp; systemd's folder, where it is, is the user's own.
    return [Path(f"/tmp/{name}-{user}"), Path(f"/run/user/{user}/{name}")]  # noqa: S108 - as above


def _private(folder: Path) -> Path:
    folder.mkdir(mode=0o700, exist_ok=True)
    if sys.platform != "win32":
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise OSError(f"{folder} is not a folder of this user alone")
    return folder
