"""From what pytest collected to which of an earlier run's tests this one should have had."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import pytest

from pytest_gpuperf.model.nodeid import file_of, split

__all__ = ["RequestedTests"]


@dataclass(slots=True, kw_only=True)
class RequestedTests:
    """The files that a run collected; `outcomes` has those that xdist's workers tell, too.

    `root` is what node ids are relative to, `asked` are the resolved paths and node ids on the command line
    (none: the whole suite), `again` says that only tests are run again that failed before.
    """

    root: Path
    asked: Sequence[str] = ()
    again: bool = False
    outcomes: dict[str, str] = field(default_factory=dict)

    def note(self, report: pytest.CollectReport) -> None:
        """Take what became of a file, or of a folder, which has no tests of its own."""
        if report.nodeid and "::" not in report.nodeid:
            self.outcomes[report.nodeid] = report.outcome

    def find(self, nodeid: str) -> None:
        """Take a test that was found: of a file that is asked for by tests' names pytest reports nothing."""
        self.outcomes.setdefault(file_of(nodeid), "passed")

    def learn(self, outcomes: Mapping[str, str]) -> None:
        """Take what another process collected."""
        self.outcomes.update(outcomes)

    def expects(self, nodeid: str, *, skipped_files: bool = True) -> bool:
        """Say whether a test should have run: its file was collected, or is gone from where was looked.

        A file or folder that skips itself was collected, too, unless `skipped_files` says it need not run.
        """
        file, name = split(nodeid)
        if self.again:
            return False
        outcome = self._outcome(file)
        if outcome is None:
            return not (self.root / file).exists() and self._is_asked(file, name)
        if outcome == "skipped" and not skipped_files:
            return False
        by_name = any("::" in each for each in self.asked)
        return not by_name or self._is_asked(file, name)

    def _outcome(self, file: str) -> str | None:
        """Return what became of a file; one in a folder that skips itself is skipped with it."""
        folders = (str(folder) for folder in PurePosixPath(file).parents)
        around = "skipped" if any(self.outcomes.get(each) == "skipped" for each in folders) else None
        return self.outcomes.get(file, around)

    def _is_asked(self, file: str, name: str) -> bool:
        """Say whether the command line asks for a test by a folder, by its file or by its name."""
        return not self.asked or any(
            self._covers(each, (self.root / file).resolve(), name) for each in self.asked
        )

    @staticmethod
    def _covers(asked: str, file: Path, name: str) -> bool:
        place, chosen = split(asked)
        path = Path(place)
        if not chosen:
            return path == file or path in file.parents
        return path == file and (name == chosen or name.startswith((f"{chosen}::", f"{chosen}[")))
