"""The base of the values that pass from room to room."""

from msgspec import Struct


class Value(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A frozen value, which is written as JSON and read strictly: a key that it does not have is refused.

    Such a key is misspelled, or another version's, and what it says would be lost in silence.
    """
