"""From what pytest collected to which of an earlier run's tests this one should have had."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

__all__ = ["Collected"]


@dataclass(slots=True, kw_only=True)
class Collected:
    """The files that a run collected; `outcomes` has those that xdist's workers tell, too.

    `root` is what node ids are relative to, `asked` are the paths and node ids on the command line (none:
    the whole suite), `again` says that only tests are run again that failed before.
    """

    root: Path
    asked: Sequence[str] = ()
    again: bool = False
    outcomes: dict[str, str] = field(default_factory=dict)

    def note(self, report: pytest.CollectReport) -> None:
        """Take what became of a file, or of a folder, which has no tests of its own."""
        if report.nodeid and "::" not in report.nodeid:
            self.outcomes[report.nodeid] = report.outcome

    def learn(self, outcomes: Mapping[str, str]) -> None:
        """Take what another process collected."""
        self.outcomes.update(outcomes)

    def expects(self, nodeid: str, *, skipped_files: bool = True) -> bool:
        """Say whether a test should have run: its file was collected, or is gone from where was looked.

        A file that skips itself as a whole was collected, too, unless `skipped_files` says it need not run.
        """
        file, _, name = nodeid.partition("::")
        if self.again:
            return False
        outcome = self.outcomes.get(file)
        if outcome is None:
            return not (self.root / file).exists() and self._is_asked(file, name)
        if outcome == "skipped" and not skipped_files:
            return False
        return self._is_asked(file, name)

    def _is_asked(self, file: str, name: str) -> bool:
        """Say whether the command line asks for a test by a folder, by its file or by its name."""
        return not self.asked or any(self._covers(each, self.root / file, name) for each in self.asked)

    @staticmethod
    def _covers(asked: str, file: Path, name: str) -> bool:
        place, _, chosen = asked.partition("::")
        path = Path(place)
        if not chosen:
            return path == file or path in file.parents
        return path == file and (name == chosen or name.startswith((f"{chosen}::", f"{chosen}[")))
