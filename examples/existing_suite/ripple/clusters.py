"""Distances between points, and Lloyd's k-means."""

from ripple.arrays import array_module


def distances(a, b):
    """Return the Euclidean distances of all pairs, of points in rows, by one matrix product."""
    xp = array_module(a, b)
    squares = xp.sum(a * a, axis=1)[:, None] + xp.sum(b * b, axis=1) - 2 * (a @ b.T)
    return xp.sqrt(xp.maximum(squares, 0))


def nearest(points, centres):
    """Return for each point the index of its nearest centre."""
    return array_module(points).argmin(distances(points, centres), axis=1)


def kmeans_step(points, centres):
    """Return the means of the points that are nearest to each centre; a centre without points stays.

    Lloyd, IEEE Transactions on Information Theory 28, 1982.
    """
    xp = array_module(points, centres)
    members = (nearest(points, centres) == xp.arange(len(centres))[:, None]).astype(points.dtype)
    counts = xp.sum(members, axis=1)[:, None]
    return xp.where(counts > 0, (members @ points) / xp.maximum(counts, 1), centres)
