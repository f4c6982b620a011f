"""The benchmark of mutants: which faults it makes, and when one is killed."""

from itertools import chain

import pytest
from cases import for_each


@pytest.fixture
def mutants(script):
    return script("mutants")


def test_each_change_is_one_fault_of_the_source(mutants):
    found = chain.from_iterable(mutants.changes("if a < b:\n    c(d)", "gate/gate.py"))
    changed = [change.mutant.mutated for change in found]
    assert {"if a <= b:", "if True:", "if False:", "pass"} == {*changed}


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
