"""The benchmark of mutants: which faults it makes, how it finds them again, and when one is killed."""

from itertools import chain

import pytest
from cases import for_each
from coverage import CoverageData


@pytest.fixture
def mutants(script):
    return script("mutants")


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
    assert mutants.find_again([wanted], changes(mutants, "LIMIT = 4")) == {wanted: None}


@pytest.fixture
def copy(mutants, monkeypatch, tmp_path):
    """Judge a mutant with tests that end as they should."""
    path = tmp_path / mutants.PACKAGE / "gate.py"
    path.parent.mkdir()
    path.write_text("clean", encoding="utf-8")

    def judge(*tests, with_mutant, without):
        def run(folder, *arguments, limit=None):
            named = [argument for argument in arguments if not argument.startswith("-")]
            outcomes = (with_mutant if path.read_text(encoding="utf-8") == "bent" else without)(named)
            status = None if outcomes is None else int("failed" in outcomes.values())
            return mutants.Ran(status=status, outcomes=outcomes or {}, seconds={})

        monkeypatch.setattr(mutants, "pytest", run)
        return mutants.judge(tmp_path, "gate.py", "bent", tests, dict.fromkeys(tests, 1.0))

    yield judge
    assert path.read_text(encoding="utf-8") == "clean"


def first_fails(tests):
    return {tests[0]: "failed"}


@for_each(
    ("expected", "tests", "with_mutant", "without"),
    [
        (("killed", "a"), "ab", first_fails, lambda tests: {}),
        # A test that fails without the mutant, too, kills nothing.
        (("killed", "b"), "ab", first_fails, lambda tests: {"a": "failed"} if "a" in tests else {}),
        (("survived", None), "a", first_fails, first_fails),
        (("survived", None), "a", lambda tests: {"a": "passed"}, lambda tests: {}),
        (("not covered", None), "", first_fails, lambda tests: {}),
        (("timeout", None), "a", lambda tests: None, lambda tests: {}),
    ],
)
def test_a_test_kills_that_fails_with_the_mutant_and_passes_without_it(
    copy, expected, tests, with_mutant, without
):
    assert expected == copy(*tests, with_mutant=with_mutant, without=without)


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
