"""A name that is not ours, an older one among them, is answered with ours."""

import pytest

from pytest_gpuperf.cli import main
from pytest_gpuperf.model.other_names import OTHER_NAMES

NAMES = [(kind, name, right) for kind, names in OTHER_NAMES.items() for name, right in names.items()]
OF_RUNS = {"backend", "metric"}


@pytest.mark.parametrize(("kind", "name", "right"), [row for row in NAMES if row[0] in OF_RUNS])
def test_a_name_that_is_not_ours_ends_a_run_with_ours(run, kind, name, right):
    options = {
        "backend": [f"--gpuperf-gpu={name}"],
        "metric": ["--gpuperf-baseline=b.json", f"--gpuperf-fail-on={name}:10%"],
    }
    result = run("def test_it(): pass", *options[kind], gpu=None if kind == "backend" else "simulated")
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    said = result.stderr.str()
    assert f"use {right}" in said
    assert name in said


def test_an_argument_that_is_not_ours_is_answered_with_ours(marker_errors):
    arguments = OTHER_NAMES["argument"]
    test = "import pytest\n@pytest.mark.speedup({}=1)\ndef test_it(device): pass"
    said = marker_errors(*(test.format(name) for name in arguments))
    for (name, right), answer in zip(arguments.items(), said, strict=True):
        assert f"use {right}" in answer
        assert name in answer


@pytest.mark.parametrize(("kind", "name", "right"), [row for row in NAMES if "command" in row[0]])
def test_a_command_that_is_not_ours_is_answered_with_ours(capsys, kind, name, right):
    with pytest.raises(SystemExit):
        main([name] if kind == "command" else ["compare", "a", "b", name])
    assert f"{name}: use {right}" in capsys.readouterr().err.replace(" is no command", "")


def test_no_answer_is_a_name_that_is_not_ours():
    assert {"argument", "command", "option of a command", *OF_RUNS} == {*OTHER_NAMES}
    assert [] == [right for kind, _, right in NAMES if right in OTHER_NAMES[kind]]
