"""Messages between the ranks of a launch, which wait for them without using a processor."""

import json
import secrets
import selectors
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import inf
from time import monotonic, sleep
from typing import Any

from pytest_gpuperf.session.ranks.meeting import Meeting
from pytest_gpuperf.session.ranks.process import Place

Message = dict[str, Any]
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
        except TimeoutError:  # after a part of it, as which the other end would read what comes next
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            return False
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


class Server:
    """The end at rank 0, which the others find where they meet.

    `on_message` and `on_end` are called with the rank at the other end. `key` is that of the launch. OSError
    where they cannot meet.
    """

    def __init__(
        self,
        meeting: Meeting,
        key: str,
        on_message: Callable[[int, Message], None],
        on_end: Callable[[int], None],
    ) -> None:
        self._on_message = on_message
        self._on_end = on_end
        self._meeting = meeting
        self._key = key
        self._token = secrets.token_hex(16)
        self._selector = selectors.DefaultSelector()
        self._channels: dict[int, Channel] = {}
        self._listener = meeting.listen()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._text = Place.of_this_process(self._listener.getsockname()[1], self._token).text
        try:
            meeting.publish(self._text)
        except OSError:
            self.close()
            raise

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
        """Close all connections, also of those that have not said who they are."""
        channels = [key.data for key in self._selector.get_map().values() if key.data is not None]
        self._selector.close()
        self._listener.close()
        for channel in channels:
            channel.close()
        self._meeting.withdraw(self._text)

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


def connect(meeting: Meeting, number: int, seconds: float) -> Channel | None:
    """Return the connection of a rank to rank 0; None where that is not there within so many seconds.

    OSError, at once, where rank 0 refuses this rank.
    """
    deadline = monotonic() + seconds
    while True:
        with suppress(OSError):  # not there yet, or that of an earlier launch
            text = meeting.read()
            answer = _welcomed(meeting, text, number, deadline)
            if isinstance(answer, Channel):
                return answer
            if answer is not None:
                break
        if monotonic() >= deadline:
            return None
        sleep(_RETRY)
    raise ConnectionRefusedError(answer)


def _welcomed(meeting: Meeting, text: str, number: int, deadline: float) -> Channel | str | None:
    """Return the connection to the place that a text names, or why rank 0 refuses it; None without an answer.

    A rank 0 that measures already answers when it next reads, as long as the text is its own.
    """
    place = Place.read(text)
    if place is None or place.is_gone:
        return None
    channel = Channel(socket.create_connection((meeting.host, place.port), timeout=_SEND), 0)
    answer: Message | None = None
    try:
        is_waiting = channel.send({"token": place.token, "rank": number})
        while is_waiting:
            try:
                answer = channel.receive(min(_LOOK, max(deadline - monotonic(), _RETRY)))
                is_waiting = False
            except TimeoutError:
                is_waiting = monotonic() < deadline and meeting.read() == text
    finally:
        if answer != _WELCOME:
            channel.close()
    if answer == _WELCOME:
        channel.process = text
        return channel
    return str(answer["refused"]) if answer and "refused" in answer else None
