"""The names under which xdist's workers send what the controller reads.

Apart from `options`, so that a suite without a speedup test that runs in workers does not import those.
"""

RECORD_ATTRIBUTE = "gpuperf"
"""Of a test's last report: its record, JSON-able, because reports travel from xdist's workers."""

OUTCOME_ATTRIBUTE = "gpuperf_outcome"
"""Of the report of a test's call: what `-v` shows of it."""

USAGE_ERROR = "gpuperf-usage-error"
"""Key in `workeroutput`, which pytest-xdist sends to the controller: why a worker ends the run."""
