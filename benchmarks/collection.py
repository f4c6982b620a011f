"""What finding speedup tests adds to pytest's collection: 20,000 items with 5,000 pairs of variants."""

import sys
from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from common import ALONE, Cost, Pairs, Target, conclude, paired, pytest, table

OURS = ("-p", "pytest_gpuperf.plugin")
MOST_PERCENT = 5.0
FILES = 50

# A suite that uses arrays imports them itself, with the plugin and without it.
MODULE = """
import numpy
import pytest

{marker}
@pytest.mark.parametrize("n", range({sizes}))
@pytest.mark.parametrize("xp", ["numpy", "cupy"])
def test_marked(xp, n):
    pass


@pytest.mark.parametrize("n", range({sizes}))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_plain(dtype, n):
    pass
"""


def main() -> int:
    arguments = read_arguments()
    sizes = arguments.pairs_of_variants // FILES
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_suite(folder, sizes, "@pytest.mark.speedup(min=2)")
        ours = list(contend(folder, arguments.pairs, OURS))
        noise = list(contend(folder, arguments.pairs, ()))
        write_suite(folder, sizes, "")
        unused = list(contend(folder, arguments.pairs, OURS))
    print(f"collect-only of {4 * sizes * FILES:,} items, median of {arguments.pairs} pairs, with / without\n")
    rows = [
        row(f"gpuperf, {sizes * FILES:,} pairs of variants", ours),
        row("gpuperf, no marker", unused),
        row("no plugin on either side: the noise", noise),
    ]
    table(["", "wall", "processor", "95 % interval"], rows)
    more = 100 * (processor(ours).ratio - 1)
    return conclude([Target(name="more processor time in %", figure=more, limit=MOST_PERCENT)])


def read_arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=15, help="pairs of collect-only runs")
    parser.add_argument("--pairs-of-variants", type=int, default=5_000, help="at least 50")
    return parser.parse_args()


def write_suite(folder: Path, sizes: int, marker: str) -> None:
    """Write the files in the place of those before."""
    for number in range(FILES):
        source = MODULE.format(marker=marker, sizes=sizes)
        (folder / f"test_{number}.py").write_text(source, encoding="utf-8")


def contend(folder: Path, pairs: int, plugin: tuple[str, ...]) -> list[tuple[Cost, Cost]]:
    """Collect by turns with the plugin and without it, after one untimed run of each."""
    command = partial(pytest, "--collect-only", "-q", "-W", "ignore", folder=folder, variables=ALONE)
    with_it, without = partial(command, *plugin), command
    with_it()
    without()
    return list(paired(with_it, without, pairs))


def processor(found: list[tuple[Cost, Cost]]) -> Pairs:
    first, second = zip(*((a.cpu, b.cpu) for a, b in found), strict=True)
    return Pairs(first=first, second=second)


def row(name: str, found: list[tuple[Cost, Cost]]) -> list[str]:
    first, second = zip(*((a.wall, b.wall) for a, b in found), strict=True)
    pairs = processor(found)
    low, high = pairs.interval
    return [
        name,
        f"{Pairs(first=first, second=second).ratio:.3f}",
        f"{pairs.ratio:.3f}",
        f"{low:.3f} to {high:.3f}",
    ]


if __name__ == "__main__":
    sys.exit(main())
