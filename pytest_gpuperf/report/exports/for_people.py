"""From a run to what people read: Markdown, a page, and a picture."""

from dataclasses import dataclass
from pathlib import Path

from pytest_gpuperf.model.record import Run
from pytest_gpuperf.report import markdown, paths, view


class Markdown:
    """The summary for pull requests."""

    name, suffix = "markdown", ".md"
    begins_as = staticmethod(paths.MARKDOWN)

    def write(self, run: Run) -> str:
        """Return what failed and regressed first, a table, and commands that repeat a test."""
        return markdown.text(run)


@dataclass(frozen=True)
class Page:
    """The page, with the speedups of earlier runs in a folder, if there is one."""

    history: Path | None = None
    name = "html"
    suffix = ".html"
    begins_as = staticmethod(paths.PAGE)

    def write(self, run: Run) -> str:
        """Return the page of a run."""
        from pytest_gpuperf.report.history import read
        from pytest_gpuperf.report.html import page

        if self.history is None or not self.history.is_dir():  # a first run that ended early makes none
            return page.text(run)
        return page.text(run, read(self.history))


class Picture:
    """The forest plot."""

    name, suffix = "svg", ".svg"
    begins_as = staticmethod(paths.SVG)

    def write(self, run: Run) -> str:
        """Return the speedups of the tests on one axis, the worst verdicts first."""
        from pytest_gpuperf.report.html import figure, forest

        rows = view.of(run, worst_first=True).rows
        return figure.svg_document(forest.plot([row.record for row in rows], [row.name for row in rows]))
