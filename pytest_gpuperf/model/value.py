"""The bases of the values that pass from room to room."""

from msgspec import Struct

from pytest_gpuperf.model.plain_text import keep_plain


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
