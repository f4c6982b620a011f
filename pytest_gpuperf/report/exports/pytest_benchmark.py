"""From a run to the JSON of pytest-benchmark, for `pytest-benchmark compare` and other readers of it."""

from collections.abc import Sequence
from math import fsum
from typing import Any

from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.demand import KINDS, Kind
from pytest_gpuperf.model.measurement import Measurement
from pytest_gpuperf.model.nodeid import name_of, parameters_of
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Record, Run
from pytest_gpuperf.report import paths
from pytest_gpuperf.report.exports.headline import headline
from pytest_gpuperf.report.json import codec
from pytest_gpuperf.report.names import distinct

_LONGEST_GROUP = 200  # bytes: `compare --histogram` makes a file name of it
_BOX = ("min", "ld15iqr", "q1", "median", "q3", "hd15iqr", "max")  # of a box plot, as it calls them


class PytestBenchmark:
    """One benchmark for each device of each test that was timed: `test_fft[cpu]`, `test_fft[gpu]`."""

    name, suffix = "pytest-benchmark", ".json"
    begins_as = staticmethod(paths.begins(rb'\{"generator":"pytest-gpuperf","machine_info":'))

    def write(self, run: Run) -> str:
        """Return the benchmarks, the machine and the commit; what a report does not have is left out."""
        benchmarks = [
            _benchmark(record, kind, measurement)
            for record in run.records
            for kind in KINDS
            if (measurement := record.measurement(kind)) and measurement.samples
        ]
        host, commit = run.environment.host, run.commit or Commit(id="unversioned")
        content = {
            "generator": "pytest-gpuperf",
            "machine_info": {name: printable(str(value)) for name, value in host.items()},
            "commit_info": {"id": printable(commit.id), "time": commit.time, "dirty": bool(commit.changed)},
            "benchmarks": benchmarks,
            "datetime": run.started,
        }
        return codec.plain(content) + "\n" if benchmarks else ""


def _benchmark(record: Record, kind: Kind, measurement: Measurement) -> dict[str, Any]:
    nodeid, found = distinct(record.nodeid), headline(record)
    parameters, device = parameters_of(nodeid), measurement.device
    result = {found[0]: found[1].value, "low": found[1].low, "high": found[1].high} if found else {}
    about = {"device": printable(device.name), "emulated": device.emulated, "status": record.status}
    return {
        "group": distinct(record.nodeid, _LONGEST_GROUP),
        "name": f"{name_of(nodeid)}[{kind}]",
        "fullname": f"{nodeid}[{kind}]",
        "params": {"device": kind},
        "param": f"{parameters}-{kind}" if parameters else kind,
        "extra_info": {**about, "reason": record.reason, **result},
        "stats": {
            **spread(measurement.samples),
            "data": [*measurement.samples],
            "iterations": measurement.block_calls,
        },
    }


def spread(samples: Sequence[float]) -> dict[str, Any]:
    """Return the statistics of one sample or more that pytest-benchmark compares and draws, in seconds.

    Its quartiles, the medians of the halves or for an odd number method 3 of
    https://en.wikipedia.org/wiki/Quartile#Computing_methods, are Hazen's; fences are Tukey's, 1.5 IQR beyond.
    """
    import numpy as np

    data, total = np.sort(samples), fsum(samples)
    mean = np.clip(total / len(data), data[0], data[-1])  # rounding may not leave the samples' own range
    with np.errstate(over="raise"):
        stddev = np.sqrt(((data - mean) ** 2).sum() / max(len(data) - 1, 1))
    low, median, high = np.quantile(data, [0.25, 0.5, 0.75], method="hazen")
    fence = 1.5 * (high - low)
    inside = data[(low - fence <= data) & (data <= high + fence)]
    far = int((abs(data - mean) > stddev).sum())
    box = (data[0], inside[0], low, median, high, inside[-1], data[-1])
    return {
        **dict(zip(_BOX, box, strict=True)),
        "mean": mean,
        "stddev": stddev,
        "iqr": high - low,
        "outliers": f"{far};{len(data) - len(inside)}",
        "rounds": len(data),
        "ops": len(data) / total if total else 0.0,
    }
