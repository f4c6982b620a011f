"""SIGTERM, which launchers and other ranks send, ends the run of a rank as Ctrl-C does: with its report."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """This run was asked to end."""


@contextmanager
def ended_by_sigterm(is_over: Callable[[], bool]) -> Iterator[None]:
    """Raise Terminated for a SIGTERM within this context, once, unless the run `is_over` and ends by itself.

    A handler of the suite's own stays, and so does the default one where pytest is not in the main thread.
    """
    process, is_raised = os.getpid(), False

    def end_run(number: int, frame: FrameType | None) -> None:
        nonlocal is_raised
        if os.getpid() != process:  # a fork of this process, as of multiprocessing, which ends as ever
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif not is_raised and not is_over():
            is_raised = True
            where = f" at {frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
            raise Terminated(f"this run was asked to end (SIGTERM){where}")

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, end_run)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is end_run:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
