"""Data cleaning stays on the CPU: many small columns, and each step's size depends on the one before.

Expect the CPU to win. Dropping what is missing gives arrays of sizes that the host has to wait for, and forty
columns of some hundred numbers are hundreds of launches with little in them. Text and objects never get
there: array libraries for GPUs take numbers only.

Source: the same launch costs as for small arrays: pyhpc-benchmarks, results/aws.md, has 0.21 for CuPy over
NumPy at 4,096 numbers.
"""

import numpy as np
import pytest

COLUMNS = 40


@pytest.mark.speedup(max=1)
def test_columns(device):
    columns = [device.asarray(column) for column in dirty()]
    return lambda: [clean(device.xp, column) for column in columns]


def dirty():
    rng = np.random.default_rng(0)
    for _ in range(COLUMNS):
        column = rng.standard_normal(rng.integers(100, 500)).astype(np.float32)
        column[rng.random(column.size) < 0.1] = np.nan
        column[rng.random(column.size) < 0.02] *= 100
        yield column


def clean(xp, column):
    known = column[~xp.isnan(column)]
    away = xp.abs(known - xp.median(known))
    kept = known[away <= 5 * xp.median(away)]
    return (kept - kept.min()) / (kept.max() - kept.min())
