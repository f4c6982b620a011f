"""How Sphinx builds the documentation: `sphinx-build -W docs build/docs`."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import generated

project = "pytest-gpuperf"
author = "The pytest-gpuperf developers"
copyright = f"2026, {author}"  # noqa: A001 - the name that Sphinx reads
version = release = installed("pytest-gpuperf")

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["generated"]  # included by pages of the reference
nitpicky = True  # a reference to what is not there is a warning, and the build fails on those
nitpick_ignore_regex = [
    ("py:.*", r"(collections|contextlib|msgspec)\..*|[A-Z]\w*")
]  # types of others, and of type hints

myst_enable_extensions = ["attrs_inline", "deflist", "dollarmath"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "signature"

html_theme = "furo"
html_title = "pytest-gpuperf"

generated.write(Path(__file__).parent / "generated")
