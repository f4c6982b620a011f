"""The budgets of the rooms: what counts as a code line."""

from importlib import util
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / ".ci" / "count.py"
MODULE = '''
"""A docstring of the module,
which has two lines."""

import os  # a comment after code


class Point:
    """What it is."""

    x: int
    """A string below a field."""


def text():
    # A comment of its own.
    return """two
    lines""" + os.name
'''


def test_comments_docstrings_and_blank_lines_are_no_code(tmp_path):
    spec = util.spec_from_file_location("count", SCRIPT)
    count = util.module_from_spec(spec)
    spec.loader.exec_module(count)
    (tmp_path / "module.py").write_text(MODULE, encoding="utf-8")
    # Import, class, field, def, and two of the string that is returned.
    assert count.code_lines(tmp_path / "module.py") == 6
