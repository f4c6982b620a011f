"""What the tests of the commands share."""

from pathlib import Path

import pytest

from pytest_gpuperf.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.fixture
def call(capsys):
    """Run the command; return its exit code, the lines that it printed, and what it complained of."""

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out.splitlines(), said.err

    return run


@pytest.fixture
def refused(call):
    """Run a command that cannot be done; return what it complained of. No file is another, or new."""

    def run(*arguments):
        before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
        code, out, err = call(*arguments)
        assert (2, []) == (code, out)
        assert err.startswith("gpuperf: ")
        assert err.count("\n") == 1
        assert before == {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
        return err.removeprefix("gpuperf: ").rstrip("\n")

    return run
