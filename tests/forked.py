"""Workers of pytest-xdist that are forked from the process of a test, which has imported what they need."""

import os
import sys
import warnings
from pathlib import Path

from execnet.gateway_base import Popen2IO


class ForkedWorker(Popen2IO):
    """A worker's process as execnet's Popen2IOMaster starts it, without a start of Python.

    That and the imports take ten times as long as what most tests let a worker do.
    """

    def __init__(self, _, execmodel):
        worker_reads, to_worker = os.pipe()
        from_worker, worker_writes = os.pipe()
        with warnings.catch_warnings():
            # Python 3.12 warns of other threads: those of execnet hold no lock that a worker needs.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(to_worker)
                os.close(from_worker)
                serve(worker_reads, worker_writes)
            finally:
                os._exit(0)
        os.close(worker_reads)
        os.close(worker_writes)
        super().__init__(os.fdopen(to_worker, "wb"), os.fdopen(from_worker, "rb"), execmodel)

    def wait(self):
        return os.waitpid(self.pid, 0)[1]

    def kill(self):
        os.kill(self.pid, 9)


def serve(reads, writes):
    """Do what `python -c` does with execnet's first line, and import the files of the suite anew."""
    os.dup2(reads, 0)
    os.dup2(writes, 1)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115 - until the end
    for name, module in [*sys.modules.items()]:
        if Path.cwd() in Path(getattr(module, "__file__", None) or "/").parents:
            del sys.modules[name]
    exec(eval(sys.stdin.readline()))  # noqa: S102, S307 - as execnet has it
