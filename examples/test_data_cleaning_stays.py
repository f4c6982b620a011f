"""Data cleaning stays on the CPU: many small columns, and each step's size depends on the one before.
Expect the CPU to win: forty columns of some hundred numbers are hundreds of launches with little in them.
Source: pyhpc-benchmarks, results/aws.md: CuPy over NumPy is 0.21 at 4,096 numbers.
"""

import numpy as np
import pytest

COLUMNS = 40
SIZES = (150, 250, 350, 450)  # and no more: JAX compiles each step once for each size that it meets


@pytest.mark.speedup(max=1)
def test_columns(device):
    columns = [device.asarray(column) for column in dirty()]
    return lambda: [clean(device.xp, column) for column in columns]


def dirty():
    rng = np.random.default_rng(0)
    for number in range(COLUMNS):
        column = rng.random(SIZES[number % len(SIZES)], dtype=np.float32)
        places = rng.permutation(column.size)
        column[places[: column.size // 10]] = np.nan
        column[places[-column.size // 50 :]] += 100
        yield column


def clean(xp, column):
    known = column[~xp.isnan(column)]
    away = xp.abs(known - xp.median(known))
    kept = known[away <= 5 * xp.median(away)]
    return (kept - kept.min()) / (kept.max() - kept.min())
