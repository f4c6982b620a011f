"""Warnings by which a library tells what it did, kept from the user, who has not asked for them."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def observed_warnings(pattern: re.Pattern[str]) -> Iterator[list[re.Match[str]]]:
    """Collect warnings that begin as the pattern, in a list that is filled at the end; give all others."""
    found: list[re.Match[str]] = []
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.filterwarnings("always", message=pattern.pattern)
            yield found
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("always")  # they have passed the user's filters
            for each in caught:
                if (match := pattern.match(str(each.message))) is not None:
                    found.append(match)
                else:
                    warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
