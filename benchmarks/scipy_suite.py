"""What the plugin costs a large suite that does not use it: SciPy's array API tests under pytest-xdist.

Needs scipy, array-api-strict, hypothesis and pytest-xdist.
"""

import sys
from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from common import ALONE, Cost, Pairs, Target, conclude, paired, pytest, table

OURS = ("-p", "pytest_gpuperf.plugin")
MOST_RATIO = 1.02
PASSED_OR_FAILED = (0, 1)  # a few of SciPy's tests fail with each new array-api-strict
VARIABLES = {**ALONE, "SCIPY_ARRAY_API": "1"}


def main() -> int:
    arguments = read_arguments()
    with TemporaryDirectory() as folder:
        found = contend(Path(folder), arguments)
    cpu, wall = (
        Pairs(
            first=tuple(getattr(ours, name) for ours, _ in found),
            second=tuple(getattr(none, name) for _, none in found),
        )
        for name in ("cpu", "wall")
    )
    low, high = cpu.interval
    print(f"{arguments.package} with / without the plugin, median of {arguments.pairs} pairs\n")
    row = [arguments.package, f"{wall.ratio:.4f}", f"{cpu.ratio:.4f}", f"{low:.3f} to {high:.3f}"]
    table(["", "wall", "processor", "95 % interval"], [row])
    name = "processor time with / without, lower end"
    return conclude([Target(name=name, figure=low, limit=MOST_RATIO)])


def read_arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument(
        "--pairs", type=int, default=7, help="pairs of runs; six or more for a 95 %% interval"
    )
    parser.add_argument("--package", default="scipy.signal", help="as in pytest --pyargs")
    parser.add_argument(
        "--workers", type=int, default=2, help="of pytest-xdist; 0 for one process without it"
    )
    return parser.parse_args()


def contend(folder: Path, arguments: Namespace) -> list[tuple[Cost, Cost]]:
    """Run the tests by turns with the plugin and without it, after one untimed run of each."""
    suite = ("-q", "-W", "ignore", "--pyargs", arguments.package, "-m", "array_api_backends")
    workers = ("-p", "xdist.plugin", "-n", str(arguments.workers)) if arguments.workers else ()
    command = partial(pytest, *suite, *workers, folder=folder, variables=VARIABLES, allowed=PASSED_OR_FAILED)
    with_it, without = partial(command, *OURS), command
    with_it()
    without()
    return list(paired(with_it, without, arguments.pairs))


if __name__ == "__main__":
    sys.exit(main())
