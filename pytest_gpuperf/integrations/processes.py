"""Programs that end with the process that started them, and signals that end a process by an exception."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)
_SECONDS = 5  # for a program that is asked to end
_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


def run(
    command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; where an exception comes first, end it and all that it has started.

    In a session of its own, no signal of the terminal reaches it, and it cannot wait for a password there.
    """
    with subprocess.Popen(  # noqa: S603 - our words, and no shell
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="surrogateescape",  # as Python has the names of files
        start_new_session=True,
        preexec_fn=dying_with_parent(signal.SIGTERM),
    ) as process:
        try:
            out, err = process.communicate()
        except BaseException:
            with held_back():
                end(process)
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


@contextmanager
def started(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    output: Path,
    *,
    calls_die_with: bool = False,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program in a session of its own; after this context nothing that it has started is left.

    What it prints goes to a file: another program that is left running would keep a pipe open. One that calls
    `die_with` itself may be started by a process with threads, such as JAX's, which is not forked then.
    """
    with (
        output.open("wb") as said,
        subprocess.Popen(  # noqa: S603 - our words and the user's own, and no shell
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=None if calls_die_with else dying_with_parent(signal.SIGKILL),
        ) as process,
    ):
        try:
            yield process
        finally:
            with held_back():
                end(process)


def dying_with_parent(number: int) -> Callable[[], None] | None:
    """Return what lets the system send a signal to a new process when this one dies; None where it cannot."""
    if sys.platform != "linux":
        return None
    return partial(_die_with, ctypes.CDLL(None).prctl, os.getpid(), number)  # nothing is loaded after a fork


def die_with(parent: int, number: int) -> None:
    """Let the system send a signal to this process when its parent dies, where it can."""
    if sys.platform == "linux":
        _die_with(ctypes.CDLL(None).prctl, parent, number)


def _die_with(prctl: Callable[[int, int], int], parent: int, number: int) -> None:
    prctl(_DEATH_SIGNAL, number)
    if os.getppid() != parent:  # which died before
        os.kill(os.getpid(), number)


def end(process: subprocess.Popen[Any]) -> None:
    """End the leader of a session and what it has started. It is asked first: git undoes what it began."""
    if sys.platform == "win32":
        process.kill()
        return
    with suppress(ProcessLookupError, PermissionError):  # of a group that has ended, macOS says the latter
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_SECONDS)
    with suppress(
        ProcessLookupError, PermissionError
    ):  # it has outlived what was asked, or what it has started did
        os.killpg(process.pid, signal.SIGKILL)


def ask_to_end(leaders: Iterable[subprocess.Popen[Any]]) -> None:
    """Ask the leaders of sessions that run to end, and what they have started."""
    for process in leaders:
        if process.poll() is None and sys.platform != "win32":
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGTERM)


@contextmanager
def ended_by_exceptions() -> Iterator[None]:
    """Let the signals that end a process raise SystemExit, as Ctrl-C raises KeyboardInterrupt.

    One that is ignored stays so: `nohup` ignores SIGHUP.
    """
    known = {number: signal.getsignal(number) for number in _ENDING}
    replaced = {number: old for number, old in known.items() if old not in (signal.SIG_IGN, None)}
    try:
        for number in replaced:
            signal.signal(number, _raise)
        yield
    finally:
        for number, old in replaced.items():
            signal.signal(number, old)


@contextmanager
def held_back() -> Iterator[None]:
    """Hold back the signals that would end this context; they take effect after it."""
    if sys.platform == "win32":
        yield
        return
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *_ENDING})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)


def last_line(text: str) -> str:
    """Return the last line that says anything."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it says nothing")


def _raise(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)  # as a shell reports it
