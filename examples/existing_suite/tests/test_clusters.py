"""Tests of the clusters."""

import numpy as np
import pytest

from ripple import distances, kmeans_step, nearest
from ripple.arrays import to_host
from ripple.testing import MODULES, assert_close

N, K = 10_000, 16


@pytest.fixture
def points(device):
    xp = MODULES["cupy" if device == "cuda" else "numpy"]
    return xp.asarray(np.random.default_rng(0).standard_normal((N, 32), dtype=np.float32))


def test_distances_are_symmetric(points):
    some = points[:1000]
    assert_close(distances(some, some), distances(some, some).T, atol=1e-2)


def test_every_point_is_nearest_to_itself(points):
    assert (to_host(nearest(points[:K], points[:K])) == np.arange(K)).all()


def test_a_step_brings_centres_closer(points):
    before = points[:K]
    after = kmeans_step(points, before)
    assert within(points, after) < within(points, before)


def test_a_centre_without_points_stays(points):
    far = points[:K] + np.float32(1000)
    far[0] = 0
    assert_close(kmeans_step(points, far)[1:], far[1:])


def within(points, centres):
    """Return the mean distance of the points to their nearest centre."""
    return float(distances(points, centres).min(axis=1).mean())
