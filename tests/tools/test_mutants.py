"""The benchmark of mutants: which faults it makes, and when one is killed."""

from itertools import chain

import pytest
from cases import for_each


@pytest.fixture
def mutants(script):
    return script("mutants")


@for_each(
    ("expected", "source"),
    [
        (["a <= b <= c", "a < b < c"], "a < b <= c"),
        (["a not in b"], "a in b"),
        (["a or b or c"], "a and b and c"),
        (["a[8]", "a[6]"], "a[7]"),
        (["a / b"], "a * b"),
        (["pass"], "a(b)"),
        (["if True:", "if False:"], "if a:\n    b\nelse:\n    c"),
        (["return None"], "def a():\n    return b"),
        ([], "@lru_cache(1)\ndef a():\n    return None"),  # these change no behaviour
        ([], "if TYPE_CHECKING:\n    a(1)"),
        ([], "a = 'text' + b"),
    ],
)
def test_each_change_is_one_fault_of_the_source(mutants, expected, source):
    found = chain.from_iterable(mutants.changes(source, "gate/gate.py"))
    assert expected == [change.mutant.mutated for change in found]


@for_each(
    ("expected", "statuses"),
    [
        (("killed", "b"), [1, 0, 1]),
        (("survived", None), [1, 1, 0]),  # b fails without the mutant, too
        (("survived", None), [1, 0, 0, 0]),  # b failed once, by chance
        (("survived", None), [0]),
        (("timeout", None), [None]),
    ],
)
def test_a_test_kills_that_fails_twice_with_the_mutant_and_passes_without_it(
    mutants, monkeypatch, tmp_path, expected, statuses
):
    path = tmp_path / mutants.PACKAGE / "gate.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text("clean", encoding="utf-8")
    left, seen = iter(statuses), []

    def run(*_, limit):
        seen.append(path.read_text(encoding="utf-8"))
        status = next(left)
        return mutants.Ran(status=status, outcomes={"b": "failed"} if status else {}, seconds={})

    monkeypatch.setattr(mutants, "pytest", run)
    assert expected == mutants.judge(tmp_path, "gate.py", "bent", ["a", "b"], {"a": 1.0, "b": 1.0})
    assert seen == ["bent", "clean", "bent", "bent"][: len(statuses)]
    assert path.read_text(encoding="utf-8") == "clean"
