"""Jinja2, imported when the first page is made: a template and values in, escaped text out."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_gpuperf.model import units
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.report.html import figure

if TYPE_CHECKING:
    from jinja2 import Template

_TEMPLATES = Path(__file__).parent / "templates"


@cache
def template() -> "Template":
    """Return the template of a page; raise GpuPerfError where Jinja2 is not installed.

    It escapes any text in the values that it is rendered with, and no text steers a terminal.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        cause = "the page needs Jinja2, which is not installed"
        raise GpuPerfError(f"{cause}; run pip install jinja2") from error
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_shown,
    )
    environment.filters["draw"] = figure.draw  # it escapes; the template marks what it returns as safe
    environment.filters["count"] = units.count
    return environment.get_template("page.html")


def asset(name: str) -> str:
    """Return a file that a page holds as it is."""
    return (_TEMPLATES / name).read_text(encoding="utf-8").strip()


def _shown(value: object) -> object:
    """Return what a template writes of a value: no text steers a terminal that shows the page's source."""
    return printable(value) if type(value) is str else value
