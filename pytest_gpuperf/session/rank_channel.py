"""Messages between the ranks of one machine, which wait for them without using a processor."""

import json
import os
import secrets
import selectors
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from math import inf
from pathlib import Path
from tempfile import gettempdir
from time import monotonic, sleep
from typing import Any

Message = dict[str, Any]
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
"""The signal that ends any process; Windows, where none is sent, does not have it."""

_HOST = "127.0.0.1"
_RETRY = 0.05  # seconds between two attempts to connect
_SEND = 5.0  # seconds: a rank that has hung reads nothing, and must not stop the one that tells it
_WELCOME: Message = {"welcome": True}
_LOOK = 1.0  # seconds: rank 0 answers at once while it meets, and what has its port since then perhaps never
_TWICE = (
    "rank 0 has a rank {number} already, so two launches at one time have the same key ({key}); "
    "start one after the other, or give each its own variables, such as MASTER_PORT"
)
_SLOWEST = 50e6  # bytes per second, for which a sender of much data has time beyond that
_LONGEST_TOKEN = 256  # bytes: whoever sends more before that is known is no rank


class Channel:
    """One connection, on which each message is a line of JSON. `number` is the rank at its other end.

    Bytes may follow a message, which has them as `data` where it is received. `process` is what rank 0 has
    said of its own.
    """

    def __init__(self, connection: socket.socket, number: int | None = None) -> None:
        self.number = number
        self.process: str | None = None
        self.connection = connection
        self._unread = bytearray()
        self._unfinished: Message | None = None  # its bytes have not all come
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, message: Message, data: bytes = b"") -> bool:
        """Send a message; return whether the other end is there."""
        head = {**message, "data": len(data)} if data else message
        self.connection.settimeout(_SEND + len(data) / _SLOWEST)
        try:
            self.connection.sendall(json.dumps(head).encode() + b"\n")
            self.connection.sendall(data)
        except OSError:
            return False
        return True

    def receive(self, seconds: float) -> Message | None:
        """Return the next message; None where the other end has closed. Raise TimeoutError without any."""
        deadline = monotonic() + seconds
        while (message := next(self._whole(), None)) is None:
            self.connection.settimeout(max(deadline - monotonic(), 1e-3))
            if not self._read():
                return None
        return message

    def arrived(self) -> tuple[list[Message], bool]:
        """Return the messages that are there, once something is, and whether the other end is open."""
        self.connection.settimeout(_SEND)
        try:
            is_open = self._read()
        except TimeoutError:
            is_open = True
        return [*self._whole()], is_open

    def close(self) -> None:
        """Close the connection, which tells the other end."""
        self.connection.close()

    @property
    def is_stranger(self) -> bool:
        """Whether what was sent is too long for a token."""
        return self.number is None and len(self._unread) > _LONGEST_TOKEN

    def _read(self) -> bool:
        try:
            received = self.connection.recv(1 << 20)
        except TimeoutError:
            raise
        except OSError:
            return False
        self._unread += received
        return bool(received)

    def _whole(self) -> Iterator[Message]:
        while True:
            if self._unfinished is None:
                if (end := self._unread.find(b"\n")) < 0:
                    return
                line = self._unread[:end]
                del self._unread[: end + 1]
                with suppress(ValueError):
                    message = json.loads(line)
                    if isinstance(message, dict):
                        self._unfinished = message
                continue
            message, size = self._unfinished, self._unfinished.get("data")
            if isinstance(size, int):
                if len(self._unread) < size:
                    return
                message["data"] = bytes(self._unread[:size])
                del self._unread[:size]
            self._unfinished = None
            yield message


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What the file of a launch says: where rank 0 listens, the token that it asks for, and its process.

    `start` is when that began, in ticks since the system did, and `container` tells which processes it sees;
    both are empty where the system does not show them.
    """

    port: int
    token: str
    process: int
    start: str
    container: str

    @classmethod
    def of_this_process(cls, port: int, token: str) -> "_Place":
        """Return a place of this process."""
        process = os.getpid()
        return cls(port=port, token=token, process=process, start=_start(process), container=_container())

    @classmethod
    def read(cls, text: str) -> "_Place | None":
        """Return the place that a file names; None where it names none."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            return None

    @property
    def text(self) -> str:
        """What its file says."""
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
        """Send a signal to its process, unless that has ended or is not the one that this process sees so."""
        if sys.platform != "win32" and self.container == _container() and not self.is_gone:
            with suppress(OSError):
                os.kill(self.process, number)


def this_process() -> str:
    """Return what `send_signal` and `is_gone` know this process by."""
    return _Place.of_this_process(0, "").text


def send_signal(process: str | None, number: int) -> None:
    """Send a signal to the process of another rank, as far as that is certainly the one."""
    if (place := _Place.read(process or "")) is not None:
        place.signal(number)


def is_gone(process: str | None) -> bool:
    """Return whether the process of another rank has ended, or cannot be known."""
    place = _Place.read(process or "")
    return place is None or place.container != _container() or place.is_gone


def _start(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except (OSError, ValueError, IndexError):
        return ""


def _container() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


class Server:
    """The end at rank 0: the others find it by a file, in a folder that is the user's alone.

    `on_message` and `on_end` are called with the rank at the other end. OSError where that cannot be had.
    """

    def __init__(
        self, key: str, on_message: Callable[[int, Message], None], on_end: Callable[[int], None]
    ) -> None:
        self._on_message = on_message
        self._on_end = on_end
        self._file = _file_of(key)
        self._key = key
        self._token = secrets.token_hex(16)
        self._selector = selectors.DefaultSelector()
        self._channels: dict[int, Channel] = {}
        self._listener = socket.create_server((_HOST, 0))
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._text = _Place.of_this_process(self._listener.getsockname()[1], self._token).text
        try:
            _remove_old(self._file.parent)
            self._publish()
        except OSError:
            self.close()
            raise

    def _publish(self) -> None:
        new = self._file.with_suffix(f".{os.getpid()}")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(self._text)
        new.replace(self._file)  # a rank reads the whole text, or that of an earlier launch

    def wait(self, is_done: Callable[[], bool], seconds: float) -> bool:
        """Handle messages until something is so; return whether it is within so many seconds."""
        deadline = monotonic() + seconds
        while self._handle(0.0):
            pass
        while not is_done():
            left = deadline - monotonic()
            if left <= 0:
                return False
            self._handle(left)
        return True

    def send(self, message: Message, below: float = inf) -> None:
        """Send a message to all ranks that are there, or to those with a smaller number."""
        for number, channel in [*self._channels.items()]:
            if number < below and not channel.send(message):
                self._read(channel)  # what it said before it closed
                if self._channels.get(number) is channel:
                    self._drop(channel)

    def close(self) -> None:
        """Close all connections."""
        self._selector.close()
        self._listener.close()
        for channel in self._channels.values():
            channel.close()
        with suppress(OSError):
            if self._file.read_text(encoding="utf-8") == self._text:  # not that of a later launch
                self._file.unlink()

    def _handle(self, seconds: float) -> bool:
        """Handle what arrives within so many seconds; return whether anything did."""
        ready = self._selector.select(seconds)
        for key, _ in ready:
            if key.data is None:
                with suppress(OSError):
                    channel = Channel(self._listener.accept()[0])
                    self._selector.register(channel.connection, selectors.EVENT_READ, channel)
            else:
                self._read(key.data)
        return bool(ready)

    def _read(self, channel: Channel) -> None:
        messages, is_open = channel.arrived()
        for message in messages:
            if channel.number is None:
                number = message.get("rank")
                if message.get("token") != self._token or not isinstance(number, int):
                    is_open = False
                    break
                if number in self._channels:
                    channel.send({"refused": _TWICE.format(number=number, key=self._key)})
                    is_open = False
                    break
                channel.number = number
                self._channels[number] = channel
                channel.send(_WELCOME)
            else:
                self._on_message(channel.number, message)
        if not is_open or channel.is_stranger:
            self._drop(channel)

    def _drop(self, channel: Channel) -> None:
        self._selector.unregister(channel.connection)
        channel.close()
        if channel.number is not None and self._channels.get(channel.number) is channel:
            del self._channels[channel.number]
            self._on_end(channel.number)


def connect(key: str, number: int, seconds: float) -> Channel | None:
    """Return the connection of a rank to rank 0; None where that is not there within so many seconds.

    OSError, at once, where there is no folder to meet in, or rank 0 refuses this rank.
    """
    file = _file_of(key)
    deadline = monotonic() + seconds
    while True:
        with suppress(OSError, ValueError):  # not there yet, or that of an earlier launch
            text = file.read_text(encoding="utf-8")
            answer = _welcomed(file, text, number, deadline)
            if isinstance(answer, Channel):
                return answer
            if answer is not None:
                break
        if monotonic() >= deadline:
            return None
        sleep(_RETRY)
    raise ConnectionRefusedError(answer)


def _welcomed(file: Path, text: str, number: int, deadline: float) -> Channel | str | None:
    """Return the connection to the place that a file names, or why rank 0 refuses it; None without an answer.

    A rank 0 that measures already answers when it next reads, as long as the file is its own.
    """
    place = _Place.read(text)
    if place is None or place.is_gone:
        return None
    channel = Channel(socket.create_connection((_HOST, place.port), timeout=_SEND), 0)
    answer: Message | None = None
    try:
        is_waiting = channel.send({"token": place.token, "rank": number})
        while is_waiting:
            try:
                answer = channel.receive(min(_LOOK, max(deadline - monotonic(), _RETRY)))
                is_waiting = False
            except TimeoutError:
                is_waiting = monotonic() < deadline and file.read_text(encoding="utf-8") == text
    finally:
        if answer != _WELCOME:
            channel.close()
    if answer == _WELCOME:
        channel.process = text
        return channel
    return str(answer["refused"]) if answer and "refused" in answer else None


def _remove_old(folder: Path) -> None:
    """Remove the files of launches whose rank 0 was killed."""
    for file in folder.iterdir():
        with suppress(OSError, ValueError):
            place = _Place.read(file.read_text(encoding="utf-8"))
            if place is not None and place.is_gone:
                file.unlink()


def _file_of(key: str) -> Path:
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
