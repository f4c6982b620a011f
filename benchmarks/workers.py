"""What pytest-xdist does to measurements: medians under -n 2 beside a serial run's, and a wait's cost."""

import json
import sys
from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from statistics import median
from subprocess import PIPE, Popen
from tempfile import TemporaryDirectory

from common import ALONE, Pairs, Target, conclude, duel, pytest, table

from pytest_gpuperf.timing.lock import MeasurementLock

MOST_PERCENT = 5.0
MOST_OF_A_PROCESSOR = 1.0  # percent
OURS = ("-p", "pytest_gpuperf.plugin", "--gpuperf-gpu=standin", "--gpuperf-json=report.json")
XDIST = ("-p", "xdist.plugin", "-n", "2")
HERE = Path(__file__).parent

CONFTEST = """
import pytest
from common import StandInBackend

def pytest_gpuperf_devices():
    return [StandInBackend()]
"""
# One thread on each side, so that two processes have a processor each; plain tests keep the other one busy.
MARKED = """
import pytest

@pytest.mark.parametrize("number", range(4))
@pytest.mark.speedup
def test_marked(device, number):
    return lambda: sum(range(100_000))
"""
PLAIN = """
import time
import pytest

@pytest.mark.parametrize("number", range({tests}))
def test_plain(number):
    end = time.perf_counter() + 0.25
    while time.perf_counter() < end:
        pass
"""
HOLD = """
import sys
from pathlib import Path
from pytest_gpuperf.timing.lock import MeasurementLock

with MeasurementLock(Path(sys.argv[1])).acquire():
    print("held", flush=True)
    sys.stdin.read()
"""


def main() -> int:
    arguments = read_arguments()
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
        (folder / "test_marked.py").write_text(MARKED, encoding="utf-8")
        (folder / "test_plain.py").write_text(PLAIN.format(tests=arguments.plain), encoding="utf-8")
        two = duel(partial(cpu_median, folder, XDIST), partial(cpu_median, folder, ()), arguments.pairs)
        one = duel(partial(cpu_median, folder, ()), partial(cpu_median, folder, ()), arguments.pairs)
        share = waiting(folder / "turn.lock", arguments.seconds)
    print(f"CPU medians of the same tests, {arguments.pairs} pairs of runs\n")
    rows = [row("-n 2, the other worker busy / serial", two), row("serial / serial: the noise", one)]
    table(["", "ratio", "95 % interval"], rows)
    return conclude(
        [
            Target(
                name="medians under -n 2, off by %", figure=abs(100 * (two.ratio - 1)), limit=MOST_PERCENT
            ),
            Target(name="waiting for a turn, % of a processor", figure=share, limit=MOST_OF_A_PROCESSOR),
        ]
    )


def read_arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=7, help="pairs of runs")
    parser.add_argument("--plain", type=int, default=40, help="unmarked tests of a quarter of a second each")
    parser.add_argument("--seconds", type=float, default=5.0, help="to wait for a turn that another holds")
    return parser.parse_args()


def cpu_median(folder: Path, plugins: tuple[str, ...]) -> float:
    """Return the median over the marked tests of their CPU's median, in seconds."""
    pytest("-q", *OURS, *plugins, folder=folder, variables={**ALONE, "PYTHONPATH": str(HERE)})
    content = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return float(median(record["cpu"]["median"] for record in content["records"]))


def waiting(file: Path, seconds: float) -> float:
    """Return the share of a processor, in percent, that this process uses while another holds the lock."""
    with Popen([sys.executable, "-c", HOLD, str(file)], stdin=PIPE, stdout=PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with MeasurementLock(file.with_suffix(".first")).acquire():
            pass  # the lock's library is imported
        lock = MeasurementLock(file, timeout=seconds)
        before = processor_time()
        with lock.acquire() as hold:
            share = 100 * (processor_time() - before) / hold.waited
        holder.communicate()
    return share


def processor_time() -> float:
    usage = getrusage(RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def row(name: str, pairs: Pairs) -> list[str]:
    low, high = pairs.interval
    return [name, f"{pairs.ratio:.3f}", f"{low:.3f} to {high:.3f}"]


if __name__ == "__main__":
    sys.exit(main())
