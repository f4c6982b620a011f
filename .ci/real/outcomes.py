"""A pytest plugin: writes what was collected, what became of each test, and which warnings there were.

The file is the one that the environment variable OUTCOMES names.
"""

import json
import os
from collections import Counter, defaultdict
from pathlib import Path

import pytest


class Outcomes:
    """What a run has seen; with pytest-xdist only the controller has an instance."""

    def __init__(self, path):
        self.path = path
        self.collected = []
        self.outcomes = defaultdict(list)
        self.warnings = Counter()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session):
        self.collected = [item.nodeid for item in session.items] or self.collected

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids):
        self.collected = list(ids)

    def pytest_collectreport(self, report):
        if report.failed:
            self.outcomes[report.nodeid].append("error in collection")

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report):
        category, _, _ = self.config.hook.pytest_report_teststatus(report=report, config=self.config)
        if category:
            self.outcomes[report.nodeid].append(category)

    def pytest_warning_recorded(self, warning_message, when):
        self.warnings[f"{warning_message.category.__name__} ({when})"] += 1

    def pytest_sessionfinish(self, exitstatus):
        told = {
            "exit": int(exitstatus),
            "collected": self.collected,
            "outcomes": {nodeid: sorted(found) for nodeid, found in self.outcomes.items()},
            "warnings": dict(self.warnings),
        }
        self.path.write_text(json.dumps(told), encoding="utf-8")


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        outcomes = Outcomes(Path(os.environ["OUTCOMES"]))
        outcomes.config = config
        config.pluginmanager.register(outcomes)
