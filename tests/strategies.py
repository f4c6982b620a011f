"""Texts that hypothesis makes up: what some reader of a file takes for more than text."""

from hypothesis import strategies as st

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")

HARD = st.sampled_from((*FORMULAS, *",;\"'[]:\x1b\ud800\ud801\\x\u202e"))

HOSTILE = st.lists(HARD | st.characters(), max_size=60).map("".join)
