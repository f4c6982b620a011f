"""The interface of a report format: what `--gpuperf-export` writes a run with."""

from typing import Protocol, runtime_checkable

from pytest_gpuperf.model.record import Run

__all__ = ["ReportFormat"]


@runtime_checkable
class ReportFormat(Protocol):
    """A format in which a run is written, as `--gpuperf-export=NAME:PATH` and the hook name it.

    Optional method: `begins_as(head)` returns whether the format wrote a file that begins with these bytes
    (at most 65,536). Only such a file, or an empty one, is replaced; without the method a file that is there
    is refused before the first test.
    """

    @property
    def name(self) -> str:
        """Its name in `--gpuperf-export`, without a colon."""

    @property
    def suffix(self) -> str:
        """How the names of its files end, such as `.csv`: lists of formats show it."""

    def write(self, run: Run) -> str:
        """Return the whole text of the file; an empty one where the run has nothing for it.

        The text is written as UTF-8 and with its own line ends; for an empty one no file is left. A run has
        the fields of the report: times in seconds, sizes in bytes, a speedup as CPU time / GPU time, and None
        for what could not be had. An exception fails the run, which names the format and the exception; all
        other files are written nevertheless.
        """
