"""The benchmark of mutants: which faults it makes, how it finds them again, and when one is killed."""

import sys
from collections import Counter
from importlib import import_module
from itertools import chain
from pathlib import Path

import pytest
from cases import for_each
from coverage import CoverageData

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SHARED = ("common", "mutants")


@pytest.fixture
def mutants(monkeypatch):
    """Import the script as it is run: from its own folder."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in SHARED:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield import_module("mutants")
    for name in SHARED:
        sys.modules.pop(name, None)


def changes(mutants, source, module="gate/gate.py"):
    return list(chain.from_iterable(mutants.changes(source, module)))


def mutated(mutants, source):
    return [change.mutant.mutated for change in changes(mutants, source)]


@for_each(
    ("source", "expected"),
    [
        ("a < b <= c", ["a <= b <= c", "a < b < c"]),
        ("a > b", ["a >= b"]),
        ("a >= b", ["a > b"]),
        ("a == b", ["a != b"]),
        ("a in b", ["a not in b"]),
        ("a is not b", ["a is b"]),
        ("a and b and c", ["a or b or c"]),
        ("not a", ["a"]),
        ("a[7]", ["a[8]", "a[6]"]),
        ("a[0.5]", ["a[0.25]"]),
        ("a[0.0]", ["a[1.0]"]),
        ("a[True]", ["a[False]"]),
        ("a + b", ["a - b"]),
        ("a / b", ["a * b"]),
        ("a -= b", ["a += b"]),
        ("a(b)", ["pass"]),
        ("while a:\n    b", ["while True:", "while False:"]),
        ("if a:\n    b\nelse:\n    c", ["if True:", "if False:"]),
        ("a if b else c", ["a if True else c", "a if False else c"]),
        ("def a():\n    return b", ["return None"]),
    ],
)
def test_a_mutant_is_one_small_change_of_a_statement(mutants, source, expected):
    assert expected == mutated(mutants, source)


@for_each(
    "source",
    [
        '"""A docstring."""',
        "a: Literal[1] = b",
        "def a(b: Literal[1]) -> Literal[2]:\n    return",
        "@lru_cache(1)\ndef a():\n    return None",
        "class A(Struct, frozen=True, tag=1):\n    b = field(repr=False)",
        "if TYPE_CHECKING:\n    a(1)",
        "a = 'text' + b",
        "a = b + [c]",
        "zip(a, b, strict=True)[c]",
    ],
)
def test_what_changes_no_behaviour_is_not_mutated(mutants, source):
    assert mutated(mutants, source) == []


SOURCE = """
LIMIT = 3

class Gate:
    def judge(self, found):
        '''Return whether it is enough.'''
        if found > LIMIT:
            return self.why(found)
        if found > LIMIT:
            raise ValueError
        return f'{found if found else 1}'
"""


def test_a_mutant_is_known_by_its_function_its_statement_and_which_of_equal_ones_it_is(mutants):
    known = [(c.mutant.function, c.mutant.original, c.mutant.occurrence) for c in changes(mutants, SOURCE)]
    assert ("", "LIMIT = 3", 0) in known
    assert [("Gate.judge", "if found > LIMIT:", index) for index in (0, 1)] == [
        (c.mutant.function, c.mutant.original, c.mutant.occurrence)
        for c in changes(mutants, SOURCE)
        if c.mutant.operator == "comparison"
    ]
    assert len({c.mutant for c in changes(mutants, SOURCE)}) == len(known)


def test_the_source_of_a_mutant_is_the_module_with_this_change_alone(mutants):
    plain = mutants.ast.unparse(mutants.ast.parse(SOURCE))
    for change in changes(mutants, SOURCE):
        lines = zip(plain.splitlines(), change.source.splitlines(), strict=True)
        differences = [(before.strip(), after.strip()) for before, after in lines if before != after]
        assert [(change.mutant.original, change.mutant.mutated)] == differences


def test_only_what_is_in_a_function_is_covered_where_it_stands(mutants):
    at = {change.mutant.original: change.covered_at for change in changes(mutants, SOURCE)}
    assert at["LIMIT = 3"] == ("gate/gate.py", 0)
    assert at["return self.why(found)"] == ("gate/gate.py", 8)


def test_a_mutant_is_found_again_where_its_function_is_now(mutants):
    (wanted,) = (
        c.mutant
        for c in changes(mutants, SOURCE)
        if c.mutant.mutated == "return None" and "why" in c.mutant.original
    )
    moved = "def judge(self, found):\n    return self.why(found)"
    for source, module in ((SOURCE, "gate/gate.py"), (SOURCE, "gate/policy.py"), (moved, "timing/blocks.py")):
        others = changes(mutants, "def other(self, found):\n    return self.why(found)", "gate/a.py")
        found = mutants.find_again([wanted], [*others, *changes(mutants, source, module)])[wanted]
        assert (module, "return None") == (found.mutant.module, found.mutant.mutated)


def test_code_that_is_gone_is_not_found(mutants):
    (wanted, *_) = (change.mutant for change in changes(mutants, SOURCE))
    assert mutants.find_again([wanted], changes(mutants, "LIMIT = 4")) == {wanted: None}


@pytest.fixture
def copy(mutants, monkeypatch, tmp_path):
    """Return what judges a mutant with tests that end as they should; what each run saw is in its `seen`."""
    path = tmp_path / mutants.PACKAGE / "gate.py"
    path.parent.mkdir()
    path.write_text("clean", encoding="utf-8")

    class Copy:
        def __init__(self):
            self.seen = []

        def judge(self, *tests, **failing):
            """Judge with tests that fail in these runs: a test's first run is 0, and it is clean in run 1."""
            runs = Counter()

            def run(folder, _, *arguments, limit):
                self.seen.append((path.read_text(encoding="utf-8"), *arguments))
                outcomes = {}
                for test in arguments:
                    runs[test] += 1
                    outcomes[test] = "failed" if runs[test] - 1 in failing.get(test, ()) else "passed"
                    if outcomes[test] == "failed":
                        break
                return mutants.Ran(status=int("failed" in outcomes.values()), outcomes=outcomes, seconds={})

            monkeypatch.setattr(mutants, "pytest", run)
            return mutants.judge(tmp_path, "gate.py", "bent", tests, dict.fromkeys(tests, 1.0))

    yield Copy()
    assert path.read_text(encoding="utf-8") == "clean"


def test_a_test_kills_that_fails_twice_with_the_mutant_and_passes_without_it(copy):
    assert copy.judge("a", "b", "c", b=[0, 2]) == ("killed", "b")
    assert copy.seen == [("bent", "a", "b", "c"), ("clean", "a", "b"), ("bent", "a", "b")]


@for_each("failing", [[0, 1, 2], [0], [0, 1]])
def test_a_test_that_also_fails_without_the_mutant_or_once_by_chance_kills_nothing(copy, failing):
    assert copy.judge("a", "b", "c", b=failing) == ("survived", None)
    assert copy.seen[-1] == ("bent", "a", "c")


def test_a_mutant_survives_tests_that_pass_and_those_that_are_not_there(copy):
    assert copy.judge("a") == ("survived", None)
    assert copy.judge() == ("not covered", None)


@for_each(("statuses", "expected"), [([None], "timeout"), ([4, 0, 4], "killed"), ([4, 4], "survived")])
def test_a_run_without_a_test_that_failed_may_take_too_long_or_end_otherwise(
    mutants, monkeypatch, tmp_path, statuses, expected
):
    (tmp_path / mutants.PACKAGE).mkdir(exist_ok=True)
    (tmp_path / mutants.PACKAGE / "gate.py").write_text("clean", encoding="utf-8")
    left = iter(statuses)
    monkeypatch.setattr(
        mutants, "pytest", lambda *_, **__: mutants.Ran(status=next(left), outcomes={}, seconds={})
    )
    assert (expected, None) == mutants.judge(tmp_path, "gate.py", "bent", ["a"], {"a": 1.0})


def test_the_tests_of_a_line_are_unit_tests_first_and_then_those_that_cover_few_lines(
    mutants, monkeypatch, tmp_path
):
    data = CoverageData(str(tmp_path / ".coverage"))
    covered = {
        "tests/plugin/a": [1, 2],
        "tests/plugin/b": [2],
        "tests/unit/c": [1, 2, 3],
        "tests/unit/failed": [2],
    }
    for test, lines in covered.items():
        data.set_context(f"{test}|run")
        data.add_lines({str(tmp_path / mutants.PACKAGE / "gate.py"): lines})
    data.write()
    outcomes = {test: "failed" if "failed" in test else "passed" for test in covered}
    ran = mutants.Ran(status=1, outcomes=outcomes, seconds={})
    monkeypatch.setattr(mutants, "pytest", lambda *arguments: ran)
    found, _ = mutants.covering(tmp_path, 1, {("gate.py", 2)})
    assert found["gate.py", 2] == ["tests/unit/c", "tests/plugin/b", "tests/plugin/a"]
    assert found.keys() == {("gate.py", 0), ("gate.py", 2)}
