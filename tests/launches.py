"""Several pytest processes with the variables of a launcher, which start at one time, and how they ended."""

import json
import os
import subprocess
import sys
from itertools import count

_LAUNCHES = count()


class Launched:
    """How the processes of a launch ended: exit status and output of each, and the report."""

    def __init__(self, processes, folder):
        self.output = [process.communicate(timeout=120)[0] for process in processes]
        self.status = [process.returncode for process in processes]
        report = folder / "report.json"
        self.report = json.loads(report.read_text("utf-8")) if report.exists() else None

    def statuses(self):
        names = (record["nodeid"].partition("::")[2] for record in self.report["records"])
        return dict(zip(names, (record["status"] for record in self.report["records"]), strict=True))

    def notes(self):
        return [note["text"] for record in self.report["records"] for note in record["notes"]]


def launched(folder, numbers, ranks, *options, each=None, **variables):
    """Run the ranks of those numbers in a folder, each with options of its own, and return how they ended."""
    launch = next(_LAUNCHES)
    own = each or {}
    processes = [_start(n, ranks, launch, *options, *own.get(n, ()), **variables) for n in numbers]
    return Launched(processes, folder)


def _start(number, ranks, launch, *options, **variables):
    """Start a rank of a launch, which no other launch finds."""
    known = {
        "RANK": number,
        "LOCAL_RANK": number,
        "WORLD_SIZE": ranks,
        "LOCAL_WORLD_SIZE": ranks,
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": f"{os.getpid()}-{launch}",
        **variables,
    }
    environment = {**os.environ, **{name: str(value) for name, value in known.items()}}
    command = [sys.executable, "-m", "pytest", "-pgpuperf", "-pno:cacheprovider", "-pno:randomly"]
    ours = ["--gpuperf-gpu=hosts", "--gpuperf-lock=none", "--gpuperf-max-time=0.2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([*command, *ours, *options], env=environment, **pipes)
