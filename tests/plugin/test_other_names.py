"""A name that is not ours is answered with ours."""

import pytest
from cases import for_each

from pytest_gpuperf.cli import main


@for_each(
    ("name", "right"),
    [("export", "gpuperf show REPORT --export FORMAT:PATH"), ("diff", "gpuperf compare BASE NEW")],
)
def test_a_command_that_is_not_ours_is_answered_with_ours(capsys, name, right):
    with pytest.raises(SystemExit):
        main([name])
    assert f"{name} is no command: use {right}" in capsys.readouterr().err
