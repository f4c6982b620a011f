"""Messages between ranks: what was said before an end is heard, whichever way that is noticed."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from socket import create_connection
from threading import Thread
from time import sleep

import pytest

from pytest_gpuperf.session.ranks import process
from pytest_gpuperf.session.ranks.channel import Server, connect
from pytest_gpuperf.session.ranks.meeting import FileMeeting


@pytest.fixture
def meet():
    """Return a server with one rank that has come, and what it hears of it."""
    heard, servers = [], []

    def call():
        key = f"test {os.getpid()} {len(servers)}"
        server = Server(
            FileMeeting(key),
            key,
            lambda *said: heard.append(said),
            lambda number: heard.append(("end", number)),
        )
        servers.append(server)
        came = []
        thread = Thread(target=lambda: came.append(connect(FileMeeting(key), 1, 10.0)))
        thread.start()
        while not came:
            server.wait(lambda: bool(came), 0.05)
        thread.join()
        return server, came[0], heard

    yield call
    for server in servers:
        server.close()


def test_a_rank_that_is_told_something_after_its_end_has_said_that_it_ended(meet):
    server, channel, heard = meet()
    server.send({"done": 1})  # never read: the rank's end resets the connection
    sleep(0.05)
    channel.send({"ended": 0})
    channel.close()
    sleep(0.05)
    for number in range(3):
        server.send({"measures": number})
        sleep(0.01)
    assert [(1, {"ended": 0}), ("end", 1)] == heard


def test_bytes_follow_a_message_and_the_next_one_follows_them(meet):
    server, channel, heard = meet()
    data = bytes(range(256)) * 20_000  # with ends of lines, and more than comes at once
    sender = Thread(target=lambda: channel.send({"said": "result"}, data) and channel.send({"at": 1}))
    sender.start()
    assert server.wait(lambda: len(heard) == 2, 10.0)
    sender.join()
    channel.close()
    assert [(1, {"said": "result", "data": data}), (1, {"at": 1})] == heard


@pytest.mark.parametrize("size", ["much", None, -1])
def test_a_stranger_cannot_confuse_the_ranks_by_a_size(meet, size):
    server, channel, heard = meet()
    port = server._listener.getsockname()[1]
    with create_connection(("127.0.0.1", port)) as stranger:
        stranger.sendall(json.dumps({"data": size, "token": "", "rank": 1}).encode() + b"\n")
        server.wait(lambda: False, 0.1)
    channel.send({"at": 1})
    assert server.wait(lambda: bool(heard), 5.0)
    channel.close()
    assert [(1, {"at": 1})] == heard


@pytest.mark.skipif(sys.platform == "win32", reason="where no process is sent a signal")
@pytest.mark.parametrize(
    ("changed", "expected"), [({}, -signal.SIGKILL), ({"container": "other"}, 0), ({"start": "7"}, 0)]
)
def test_a_signal_is_sent_only_to_the_process_that_was_meant(changed, expected):
    """Its number may be another process's by now, or in another container."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        own = asdict(process.Place.of_this_process(0, ""))
        known = {**own, "process": child.pid, "start": process._start(child.pid), **changed}
        process.send_signal(json.dumps(known), signal.SIGKILL)
        child.communicate(b"\n", timeout=30)
        assert expected == child.returncode
        assert process.is_gone_or_unknown(json.dumps(known))
    finally:
        child.kill()


def test_a_process_that_nobody_has_named_gets_no_signal():
    process.send_signal(None, signal.SIGTERM)
    assert process.is_gone_or_unknown(None)
    assert not process.is_gone_or_unknown(process.this_process())
