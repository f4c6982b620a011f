"""Whatever a file, a disk, a terminal or a reader does to a command."""

import io
import resource
import subprocess
import sys
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import pytest
from command import HOSTILE, inputs, record, usage, written
from factories import CPU, GPU, measured, speedup

from pytest_gpuperf.model.record import Note

READERS = {
    "show": ["show", "wrong.json"],
    "validate": ["validate", "wrong.json"],
    "export": ["show", "wrong.json", "--export=csv"],
    "compare": ["compare", "right.json", "wrong.json"],
    "compare with": ["compare", "wrong.json", "right.json"],
    "baseline": ["baseline", "update", "base.json", "wrong.json"],
    "baseline of": ["baseline", "update", "wrong.json", "right.json"],
    "merge": ["merge", "right.json", "wrong.json", "-o", "merged.json"],
}


@pytest.mark.parametrize("arguments", READERS.values(), ids=READERS)
def test_what_is_no_report_is_named_and_nothing_is_written(refused, arguments):
    written("right.json", record())
    if arguments is not READERS["baseline of"]:  # which is made
        assert refused(*arguments) == "wrong.json cannot be read: No such file or directory; name a report"
    Path("wrong.json").write_text("{}")
    assert refused(*arguments).startswith("wrong.json: this is no report")


@pytest.mark.parametrize(
    "changes", [{"speedup": None}, {"cpu": measured(CPU, 0.0), "gpu": measured(GPU, 0.0)}]
)
def test_numbers_that_no_measurement_gives_break_no_command(call, changes):
    """Times of zero can be compared with nothing, and are no error of Python's."""
    written("right.json", record())
    written("wrong.json", record(**changes))
    for name, arguments in READERS.items():
        code, _, err = call(*arguments)
        assert name == "merge" or (code in (0, 1, 3) and err == "") or "measured nothing" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "r.json", "--export=csv:new/"],
        ["compare", "r.json", "r.json", "--html=new/"],
        ["recover", "r.journal", "new/"],
        ["merge", "one.json", "two.json", "-o", "new/"],
    ],
    ids=" ".join,
)
def test_an_output_that_ends_in_a_slash_is_refused_as_a_folder(capsys, arguments):
    inputs()
    assert "new/ is a folder; choose a file in it" in usage(capsys, *arguments)
    assert not Path("new").exists()


def test_a_number_beyond_what_can_be_computed_is_an_error_in_words(refused):
    Path("speedups").mkdir()
    written("speedups/r.json", record(speedup=speedup(1.79e308, 1.0, None)))
    said = refused("history", "speedups")
    assert said.startswith("the report contains an impossible number (")


def test_control_characters_of_a_report_do_not_reach_the_terminal(call):
    written("base.json", record(HOSTILE), record("test_a.py::test_2"))
    written(
        "new.json",
        record(HOSTILE, 5.0, notes=(Note(code="slowed_by_settings", text="\x1b]0;owned\x07"),)),
        record("test_a.py::test_2"),
    )
    written("other.json", record())
    for arguments in (
        ["show", "new.json"],
        ["compare", "base.json", "new.json"],
        ["merge", "new.json", "other.json", "-o", "merged.json"],
        ["merge", "new.json", "new.json", "-o", "merged.json"],
        ["baseline", "update", "base.json", "new.json"],
    ):
        _, lines, err = call(*arguments)
        assert [line for line in (*lines, *err.splitlines()) if not line.isprintable()] == []
        assert "all is well]" not in lines
    assert any(r"\x1b[31m\r\nall is well\x07" in line for line in call("show", "new.json")[1])


def test_a_terminal_that_knows_few_letters_gets_what_it_can_show(call):
    written("r.json", record("test_a.py::test_é_\udcff"))
    with redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="ascii")) as terminal:
        assert (0, [], "") == call("show", "r.json")
    assert rb"test_\xe9_\udcff" in terminal.buffer.getvalue()


def many(tests: int) -> str:
    return written("r.json", *(record(f"test_a.py::test_{number:060}") for number in range(tests)))


def test_a_reader_that_has_seen_enough_is_no_error():
    program = "import sys; from pytest_gpuperf.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "show", many(1000)]  # more than a pipe holds
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ran:
        ran.stdout.readline()
        ran.stdout.close()
        assert ran.stderr.read() == b""
    assert ran.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_an_output_that_is_full_is_an_error_in_words(call):
    with Path("/dev/full").open("w") as full, redirect_stdout(full):
        said = "gpuperf: standard output cannot be written: No space left on device\n"
        assert (2, [], said) == call("show", many(300))


@pytest.mark.parametrize("arguments", ["history h", "history h --json", "show r.json"])
def test_a_closed_output_is_no_error(call, arguments):
    inputs()
    Path("h").mkdir()
    with redirect_stdout(None):  # as Python starts with `>&-`
        assert (0, [], "") == call(*arguments.split())


WRITERS = {
    "export": ["show", "r.json", "--export", "csv:out.json"],
    "baseline": ["baseline", "update", "out.json", "r.json"],
    "merge": ["merge", "one.json", "two.json", "-o", "out.json"],
    "compare": ["compare", "r.json", "r.json", "--markdown", "out.json"],
    "recover": ["recover", "r.journal", "out.json"],
}


@contextmanager
def full():
    """Let no file of this process grow."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("arguments", WRITERS.values(), ids=WRITERS)
def test_an_output_is_named_where_it_cannot_be_and_else_alone_in_its_folder(folder, call, refused, arguments):
    def to(path: str) -> list[str]:
        return [each.replace("out.json", path) for each in arguments]

    inputs()
    with full():
        assert refused(*arguments) == "out.json: File too large"
    said = refused(*to("r.json/out.json"))
    assert said in ("r.json is not a folder; choose another place", "r.json/out.json: Not a directory")
    before = {*folder.iterdir()}
    code, _, err = call(*to("new/folder/out.json"))
    assert (0, "", ["out.json"]) == (code, err, [path.name for path in (folder / "new/folder").iterdir()])
    assert {folder / "new"} == {*folder.iterdir()} - before


def test_the_commands_load_neither_pytest_nor_numpy():
    written("r.json", record())
    program = (
        "import sys; from pytest_gpuperf.cli import main; [main(line.split()) for line in sys.argv[1:]]; "
        "assert not {'pytest', 'numpy', 'jsonschema'} & {*sys.modules}"
    )
    lines = ["compare r.json r.json", "show r.json", "baseline update b r.json"]
    ran = subprocess.run([sys.executable, "-c", program, *lines], capture_output=True, text=True, check=False)
    assert (0, "") == (ran.returncode, ran.stderr)
    assert Path("b").exists()
