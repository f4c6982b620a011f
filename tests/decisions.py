"""What a regression check decides, in one table: of each state of a test, with each option.

`test` fails the test, `run` the run as a whole, and a dash neither. The unit tests read all of it, and so do
those of pytest's door and of `gpuperf compare`, where a run has a test in each state.
"""

from typing import NamedTuple

OPTIONS = {
    "default": (),
    "strict": ("strict",),
    "missing": ("allow=missing",),
    "no-gpu": ("allow=no-gpu",),
    "without": ("allow=no-gpu",),  # in a run without a GPU
    "doubt": ("fail=doubt",),
    "nothing": ("fail=nothing",),
    "improvement": ("fail-on=improvement",),
    "strict, missing": ("strict", "allow=missing"),
}
TABLE = """
same       not_regressed   -     -     -     -     -     -     -  -       -
worse      regressed       test  test  test  test  test  test  -  test    test
better     improved        -     -     -     -     -     -     -  test    -
unclear    inconclusive    -     -     -     -     -     test  -  -       -
elsewhere  not_comparable  -     test  -     -     -     -     -  -       test
broken     not_measured    test  test  test  test  test  test  -  test    test
silent     not_measured    run   run   run   run   run   run   -  run     run
renamed    gone            run   run   -     run   run   run   -  run     -
ungrouped  gone            run   run   -     run   run   run   -  run     -
hidden     gone            run   run   -     run   run   run   -  run     -
skipped    skipped         run   run   -     run   -     run   -  run     -
excused    excused         run   run   -     run   run   run   -  run     -
narrowed   narrowed        -     run   -     -     -     -     -  -       -
cut off    ended           run   run   run   run   run   run   -  run     run
"""


class Row(NamedTuple):
    """A cell of the table: a state of a test and what it is called, an option, and what fails."""

    state: str
    outcome: str
    option: str
    fails: str


def _rows() -> list[Row]:
    rows = []
    for line in TABLE.strip().splitlines():
        state, outcome = line[:11].strip(), line[11:].split()[0]
        cells = line[11:].split()[1:]
        rows += [Row(state, outcome, option, cell) for option, cell in zip(OPTIONS, cells, strict=True)]
    return rows


ROWS = _rows()
