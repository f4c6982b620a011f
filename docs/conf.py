"""How Sphinx builds the documentation: `sphinx-build -W docs build/docs`."""

from importlib.metadata import version as installed

project = "pytest-gpuperf"
author = "The pytest-gpuperf developers"
copyright = f"2026, {author}"  # noqa: A001 - the name that Sphinx reads
version = release = installed("pytest-gpuperf")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "sphinx_design"]
nitpicky = True  # a reference to what is not there is a warning, and the build fails on those
nitpick_ignore_regex = [
    ("py:.*", r"(collections|contextlib|msgspec|os|pathlib|pytest|typing\.Annotated)\b.*|[A-Z]\w*"),
    ("py:.*", r"pytest_gpuperf\.model\.record\.R\w+"),  # the page of the report has their fields
    ("py:.*", r"pytest_gpuperf\.work\.workload\.ResettableCall"),  # a test only returns it
    ("py:.*", r"pytest_gpuperf\.devices\.environment\.Quota"),  # the host's own CPU has one
]  # types of others, and of type hints

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 3
default_role = "code"  # docstrings have `names` in one backtick
smartquotes = False  # which would make a dash of --gpuperf-gpu
autodoc_member_order = "bysource"
autodoc_typehints = "signature"

html_theme = "furo"
html_title = "pytest-gpuperf"
