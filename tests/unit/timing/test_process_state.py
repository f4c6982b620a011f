"""When a change of a call's time is over: plugin tests have what changes it."""

from types import SimpleNamespace

from cases import for_each

from pytest_gpuperf.timing.process_state import Change

BEFORE = 1e-3


@for_each(
    ("expected", "factor", "fastest"),
    [(True, 40.0, 2.9 * BEFORE), (False, 40.0, 3 * BEFORE), (False, 0.1, 2.9 * BEFORE)],
)
def test_a_slow_spell_is_over_once_a_block_was_about_as_fast_as_before(expected, factor, fastest):
    # What a call needs at least is less than any block took: it shows nothing.
    timer = SimpleNamespace(fastest_sample=fastest, least_time=BEFORE / 8)
    assert expected == Change(factor=factor, text="slower", before=BEFORE).is_over(timer)


def test_a_change_without_a_time_before_is_not_over():
    assert not Change(factor=4.0, text="late").is_over(SimpleNamespace(fastest_sample=1e-9, least_time=None))
