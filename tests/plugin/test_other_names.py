"""A name that is not ours, an older one among them, is answered with ours."""

import pytest

from pytest_gpuperf.cli import main
from pytest_gpuperf.model.other_names import OTHER_NAMES

NAMES = [(kind, name, right) for kind, names in OTHER_NAMES.items() for name, right in names.items()]


@pytest.mark.parametrize(("name", "right"), OTHER_NAMES["command"].items())
def test_a_command_that_is_not_ours_is_answered_with_ours(capsys, name, right):
    with pytest.raises(SystemExit):
        main([name])
    assert f"{name} is no command: use {right}" in capsys.readouterr().err


def test_no_answer_is_a_name_that_is_not_ours():
    assert {"argument", "option", "command", "backend", "metric"} == {*OTHER_NAMES}
    assert [] == [right for kind, _, right in NAMES if right in OTHER_NAMES[kind]]
