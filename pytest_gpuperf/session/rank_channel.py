"""Messages between the ranks of one machine, which wait for them without using a processor."""

import json
import os
import secrets
import selectors
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from math import inf
from pathlib import Path
from tempfile import gettempdir
from time import monotonic, sleep
from typing import Any

Message = dict[str, Any]

_HOST = "127.0.0.1"
_RETRY = 0.05  # seconds between two attempts to connect
_SEND = 5.0  # seconds: a rank that has hung reads nothing, and must not stop the one that tells it
_WELCOME: Message = {"welcome": True}
_LONGEST_TOKEN = 256  # bytes: whoever sends more before that is known is no rank


class Channel:
    """One connection, on which each message is a line of JSON. `number` is the rank at its other end."""

    def __init__(self, connection: socket.socket, number: int | None = None) -> None:
        self.number = number
        self.connection = connection
        self._unread = b""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, message: Message) -> bool:
        """Send a message; return whether the other end is there."""
        self.connection.settimeout(_SEND)
        try:
            self.connection.sendall(json.dumps(message).encode() + b"\n")
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
            received = self.connection.recv(1 << 16)
        except TimeoutError:
            raise
        except OSError:
            return False
        self._unread += received
        return bool(received)

    def _whole(self) -> Iterator[Message]:
        while b"\n" in self._unread:
            line, _, self._unread = self._unread.partition(b"\n")
            with suppress(ValueError):
                message = json.loads(line)
                if isinstance(message, dict):
                    yield message


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
        self._token = secrets.token_hex(16)
        self._selector = selectors.DefaultSelector()
        self._channels: dict[int, Channel] = {}
        self._listener = socket.create_server((_HOST, 0))
        self._selector.register(self._listener, selectors.EVENT_READ)
        try:
            self._publish()
        except OSError:
            self.close()
            raise

    def _publish(self) -> None:
        text = json.dumps([self._listener.getsockname()[1], self._token])
        new = self._file.with_suffix(f".{os.getpid()}")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
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
                self._drop(channel)

    def close(self) -> None:
        """Close all connections."""
        self._selector.close()
        self._listener.close()
        for channel in self._channels.values():
            channel.close()
        with suppress(OSError):
            self._file.unlink(missing_ok=True)

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
    """Return the connection of a rank to rank 0; None where that is not there within so many seconds."""
    deadline = monotonic() + seconds
    while True:
        with suppress(OSError, ValueError):  # not there yet, or that of an earlier launch
            port, token = json.loads(_file_of(key).read_text(encoding="utf-8"))
            channel = Channel(socket.create_connection((_HOST, port), timeout=_SEND), 0)
            left = max(deadline - monotonic(), _RETRY)
            if channel.send({"token": token, "rank": number}) and channel.receive(left) == _WELCOME:
                return channel
            channel.close()
        if monotonic() >= deadline:
            return None
        sleep(_RETRY)


def _file_of(key: str) -> Path:
    """Return the file of a launch in a private folder; raise OSError where the folder is another user's."""
    name = "pytest-gpuperf-ranks"
    if sys.platform == "win32":  # where the folder for temporary files is one user's
        folder = Path(gettempdir(), name)
        folder.mkdir(exist_ok=True)
    else:
        folder = Path(f"/tmp/{name}-{os.getuid()}")  # noqa: S108 - TMPDIR may differ between ranks
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise OSError(f"{folder} is not a folder of this user alone")
    return folder / sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:24]
