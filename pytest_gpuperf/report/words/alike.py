"""From sentences that differ in the device alone, on which they are said, to one that names all of them."""

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from pytest_gpuperf.model import units
from pytest_gpuperf.model.record import Record


class Parts(NamedTuple):
    """A sentence around the device that it names; it is all `before` where it names none, or several."""

    before: str
    device: str = ""
    after: str = ""

    @property
    def around(self) -> tuple[str, str]:
        """What sentences have in common that differ in the device alone."""
        return self.before, self.after


def parts(sentence: str, record: Record) -> Parts:
    """Return the parts of a sentence on a test, which names devices as the record does."""
    names = {side.device.name for side in (record.cpu, record.gpu) if side}
    found = [*_devices(frozenset({"the CPU", f"the {record.gpu_noun}", *names})).finditer(sentence)]
    if len(found) != 1:
        return Parts(sentence)
    start, end = found[0].span()
    return Parts(sentence[:start], sentence[start:end], sentence[end:])


def joined(alike: Iterable[Parts]) -> str:
    """Return one sentence for all that have the same parts around their devices."""
    first, *others = alike
    devices = dict.fromkeys(each.device for each in (first, *others))
    return f"{first.before}{units.listed(devices)}{first.after}"


@cache
def _devices(names: frozenset[str]) -> re.Pattern[str]:
    longest_first = sorted(filter(None, names), key=lambda name: (-len(name), name))
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")
