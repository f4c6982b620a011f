"""Jinja2, imported when the first page is made: a template and values in, escaped text out."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_gpuperf.model import units
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.report.html import figure

if TYPE_CHECKING:
    from jinja2 import Environment

PAGE = "page.html"
"""The template of a page."""
_TEMPLATES = Path(__file__).parent / "templates"


def check() -> None:
    """Raise GpuPerfError where no page can be made; compile the template, which the first page needs."""
    _environment().get_template(PAGE)


def render(template: str, **values: Any) -> str:
    """Return what a template makes of values; any text in them is escaped, and steers no terminal."""
    return _environment().get_template(template).render(values)


def asset(name: str) -> str:
    """Return a file that a page holds as it is."""
    return (_TEMPLATES / name).read_text(encoding="utf-8").strip()


@cache
def _environment() -> "Environment":
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
    return environment


def _shown(value: object) -> object:
    """Return what a template writes of a value: no text steers a terminal that shows the page's source."""
    return printable(value) if type(value) is str else value
