"""From a run to a small file in a folder, and from the folder back to the results of its runs."""

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex

from pytest_gpuperf.gate import fingerprint
from pytest_gpuperf.model.errors import GpuPerfError
from pytest_gpuperf.model.measurement import Estimate
from pytest_gpuperf.model.record import Run
from pytest_gpuperf.report import files
from pytest_gpuperf.report.json import codec, schema
from pytest_gpuperf.report.json.history import Entry, Group, Interval, Tested
from pytest_gpuperf.report.verdicts import shown_records

_MOST_BYTES = 8_000_000  # of a file that is read: forty thousand tests
_LONGEST_REASON = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The entries of a folder, earliest first, and by name why its other files are none."""

    entries: tuple[Entry, ...] = ()
    rejected: dict[str, str] = field(default_factory=dict)


def entry(run: Run) -> Entry:
    """Return what a history keeps of a run: six digits of each number.

    Left out are deselected tests, and CPU variants, whose times stand with the GPU variants.
    """
    partners = {record.pairing.partner for record in run.records if record.pairing}
    kept = [record for record in shown_records(run) if record.nodeid not in partners]
    devices = ((record.cpu.device, record.gpu.device) for record in kept if record.cpu and record.gpu)
    cpu, gpu = next(devices, (None, None))
    gpu = run.environment.gpu or gpu
    groups: dict[str, list[Tested]] = {}
    for record in kept:
        # A device that was not measured counts as the run's.
        both = (record.cpu.device if record.cpu else cpu, record.gpu.device if record.gpu else gpu)
        test = Tested(
            nodeid=record.nodeid,
            status=record.status,
            speedup=_interval(record.speedup.estimate) if record.speedup else None,
            cpu=_six_digits(record.cpu.median) if record.cpu else None,
            gpu=_six_digits(record.gpu.median) if record.gpu else None,
        )
        groups.setdefault(fingerprint.key(run.environment, *both, record.demand), []).append(test)
    measured = tuple(Group(fingerprint=shared, tests=tuple(tests)) for shared, tests in groups.items())
    return Entry(history_version="1.0", started=run.started, commit=run.commit, measured=measured)


def write(folder: Path, entry: Entry) -> Path:
    """Write an entry as a new file of a folder, which is made if need be, and return its path.

    The name begins with the time, so that names sort by it, and ends with a random number, so that no two
    runs of any machines meet. Raises GpuPerfError for an entry that breaks the schema, and OSError.
    """
    text = codec.written(entry) + "\n"
    time = entry.time.strftime("%Y%m%dT%H%M%SZ")
    if len(text) > _MOST_BYTES:
        raise GpuPerfError(f"the run is too large for a history: {len(text)} bytes, at most {_MOST_BYTES}")
    short = re.sub(r"[^0-9A-Za-z]", "", entry.commit.id)[:12] if entry.commit else ""
    while (path := folder / f"{time}-{short or 'unknown'}-{token_hex(6)}.json").exists():
        pass
    files.replace(path, text)
    return path


def read(folder: Path) -> History:
    """Return the runs of a folder, earliest first, and the files in it that are none, with the reason.

    A file that vanishes meanwhile is no error; hidden files are those of writers, or none of ours. Raises
    GpuPerfError when there is no such folder, and OSError when it cannot be listed.
    """
    if not folder.is_dir():
        raise GpuPerfError(f"{folder} is no folder; runs with --gpuperf-history={folder} make one")
    found: list[Entry] = []
    rejected: dict[str, str] = {}
    for path in sorted(path for path in folder.iterdir() if not path.name.startswith(".")):
        try:
            entry = _load(files.content(path, _MOST_BYTES, follow_link=False))
            entry.time  # noqa: B018 - the property raises
            found.append(entry)
        except FileNotFoundError:
            continue
        except OSError as error:
            rejected[path.name] = f"it cannot be read: {error.strerror}"
        except GpuPerfError as error:
            rejected[path.name] = str(error)[:_LONGEST_REASON]
    found.sort(key=lambda entry: entry.time)  # stable: those of one time stay in the order of their names
    return History(entries=tuple(found), rejected=rejected)


def _interval(speedup: Estimate) -> Interval:
    value = float(f"{speedup.value:.6g}")
    return Interval(value=value, low=_six_digits(speedup.low), high=_six_digits(speedup.high))


def _six_digits(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.6g}")


def _load(text: bytes) -> Entry:
    """Return the entry in a file's text; raise GpuPerfError, with the cause, if it holds none."""
    found = codec.quick(text.removesuffix(b"\n"), Entry)
    if found is None:
        try:
            content = codec.parse(text.decode("utf-8"))
        except ValueError as error:
            raise GpuPerfError(f"it is not JSON: {error}") from error
        schema.check_version(content, "history_version", "entry of a history")
        found = codec.load(content, Entry)
    counts = Counter(test.nodeid for group in found.measured for test in group.tests)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise GpuPerfError(f"it has {twice[0]} more than once")
    return found
