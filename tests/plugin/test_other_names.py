"""A name that is not ours, an older one among them, is answered with ours."""

import pytest

from pytest_gpuperf import options
from pytest_gpuperf.cli import main
from pytest_gpuperf.model.other_names import OTHER_NAMES

NAMES = [(kind, name, right) for kind, names in OTHER_NAMES.items() for name, right in names.items()]
TEST = "import pytest\n@pytest.mark.speedup({})\ndef test_it(device):\n    return lambda: device.xp.ones(3)\n"


@pytest.mark.parametrize(("kind", "name", "right"), NAMES)
def test_a_name_that_is_not_ours_is_answered_with_ours(run, pytester, capsys, kind, name, right):
    used = {
        "argument": (TEST.format(f"{name}=1"),),
        "option": (TEST.format(""), name),
        "ini key": (TEST.format(""), "-o", f"{name}=cpu"),
        "backend": (TEST.format(""), f"--gpuperf-gpu={name}"),
        "metric": (TEST.format(""), "--gpuperf-baseline=b.json", f"--gpuperf-fail-on={name}:10%"),
    }
    if kind in ("command", "option of a command"):
        with pytest.raises(SystemExit):
            main([name] if kind == "command" else ["compare", "a", "b", name])
        assert f"{name}: use {right}" in capsys.readouterr().err.replace(" is no command", "")
        return
    if kind == "ini key":
        pytester.makeini(f"[pytest]\n{name} = cpu\n")
        used[kind] = used[kind][:1]
    result = run(*used[kind], **({"gpu": None} if kind == "backend" else {}))
    wrong = pytest.ExitCode.TESTS_FAILED if kind == "argument" else pytest.ExitCode.USAGE_ERROR
    assert wrong == result.ret
    said = str(result.stdout) + str(result.stderr)
    assert f"use {right}" in said
    assert name in said


def test_each_option_that_is_answered_so_is_known_at_start():
    assert set(options._REFUSED) == {*OTHER_NAMES["option"]}


def test_no_answer_is_a_name_that_is_not_ours():
    assert [] == [right for kind, _, right in NAMES if right in OTHER_NAMES[kind]]
