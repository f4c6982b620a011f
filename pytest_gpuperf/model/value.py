"""What the values that pass from room to room are made of: their bases, and numbers with unit and range.

A range is proved when a document is read. `valid` says in words what a marker accepts.
"""

from typing import Annotated

from msgspec import Meta, Struct

from pytest_gpuperf.model.plain_text import keep_plain

AtLeastOne = Annotated[int, Meta(ge=1, extra={"valid": "an integer of at least 1"})]
Bandwidth = Annotated[float, Meta(gt=0, extra={"unit": "B/s"})]
Bytes = Annotated[int, Meta(ge=0, extra={"unit": "B"})]
Count = Annotated[int, Meta(ge=0)]
Finite = Annotated[float, Meta(extra={"valid": "a finite number"})]
MemoryLimit = Annotated[
    AtLeastOne,
    Meta(extra={"valid": "a number of bytes above 0, or one with a unit, e.g. '512MB' or '1.5GiB'"}),
]
NonNegative = Annotated[float, Meta(ge=0, extra={"valid": "a finite number of at least 0"})]
Positive = Annotated[float, Meta(gt=0)]
Seconds = Annotated[float, Meta(ge=0, extra={"unit": "s"})]
PartOfOne = Annotated[
    float, Meta(gt=0, le=1, extra={"valid": "a number above 0 and at most 1, e.g. 0.5 for half"})
]
Ratio = Annotated[float, Meta(gt=0, extra={"unit": "x", "valid": "a finite number above 0"})]
Share = Annotated[float, Meta(ge=0, le=1)]
Text = Annotated[str, Meta(min_length=1)]
TimeLimit = Annotated[
    Positive,
    Meta(le=86_400, extra={"valid": "a finite number of seconds above 0 and at most 86400, a day"}),
]


class Value(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A frozen value, which is written as JSON and read strictly: a key that it does not have is refused.

    Such a key is misspelled, or another version's, and what it says would be lost in silence.
    """


class Said(Value, frozen=True, kw_only=True):
    """A sentence and its kind: a code for programs, which each subclass names, and a text for readers."""

    code: str
    """Its kind."""
    text: str
    """Its sentence."""

    def __post_init__(self) -> None:
        """Keep what a test, a device or a baseline says from steering a terminal, and short."""
        keep_plain(self, "text")
