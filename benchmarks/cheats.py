"""What the plugin says of dishonest workloads, whose GPU side does not do the work, and of honest ones.

The workloads are in workloads/: each file runs on the devices that it fits. Other work on the machine may
leave any test inconclusive, so those are counted apart.

`python tests/fakes/cuda benchmarks/cheats.py torch cupy` runs on fake CUDA devices, which compute nothing: no
results are compared.
"""

import json
import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, get_args

from common import ALONE, Target, conclude, table

import pytest_gpuperf
from pytest_gpuperf import load_report
from pytest_gpuperf.model.record import NoteCode, ReasonCode, Record

WORKLOADS = Path(__file__).parent / "workloads"
SOURCES = str(Path(pytest_gpuperf.__file__).parents[1])
DEVICES = ("standin:numpy", "torch:cpu", "jax:cpu", "simulated")
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
PATIENCE = 1800.0  # seconds after which a run is ended: it hangs

Suite = Literal["honest", "dishonest"]
Ending = Literal["passed", "noted", "by noise", "by a rule", "failed", "refused", "skipped"]
"""Green, recorded with a doubt, inconclusive by noise, inconclusive by a rule, a missed limit, an error."""
_ENDINGS: tuple[Ending, ...] = get_args(Ending)

OF_NOISE: frozenset[ReasonCode | NoteCode] = frozenset(
    {
        "interference",
        "not_enough_time",
        "limit_too_close",
        "gpu_throttled",
        "not_exclusive",
        "slowed_by_settings",
        "long_warm_up",
        "overlap_not_measured",
        "totals_differ",
    }
)
"""Codes that depend on what else the machine does, and on how short the tests are."""
SAID: frozenset[NoteCode] = frozenset({"results_not_compared"})
"""Codes that are no doubt: a call that returns nothing has no result to compare."""

ANY = "any device"
_COPY = "a copy of what was kept, or of what the CPU computed: some work is seen, and not how much"
_LESS = "less work than on the CPU: a smaller problem, fewer calls, a warm start"
_MATCHED = "a result that a wrong one matches: zeros, NaN, equal values, an error below the tolerance"
_MORE = "the CPU does more than it must"
_IDLE_ARRAYS = "functions run or arrays are made there, and nothing is done with them"
_LATER = "another thread does the work later"
KNOWN: Mapping[str, Mapping[str, str]] = {
    ANY: {
        "test_a_copy_of_a_result": _COPY,
        "test_a_copy_where_the_input_is_the_same": _COPY,
        "test_a_corner_of_the_matrix": _LESS,
        "test_a_corner_without_a_limit": _LESS,
        "test_one_row_that_is_dropped": _LESS,
        "test_one_batch_of_eight": _LESS,
        "test_a_body_with_fewer_batches": _LESS,
        "test_a_warm_start": _LESS,
        "test_a_refresh_at_every_300th_call": _LESS,
        "test_other_values_behind_a_mask": _MATCHED,
        "test_nan_on_both": _MATCHED,
        "test_zeros_on_both": _MATCHED,
        "test_infinity_on_both": _MATCHED,
        "test_one_column_that_is_wrong": _MATCHED,
        "test_one_element_of_ones": _MATCHED,
        "test_a_row_of_a_constant_product": _MATCHED,
        "test_work_that_the_cpu_repeats": _MORE,
        "test_a_cpu_that_computes_all_for_a_row": _MORE,
        "test_a_body_that_makes_arrays_there": _IDLE_ARRAYS,
        "test_a_buffer_that_a_thread_fills_later": _LATER,
    },
    "simulated": {"test_an_empty_slice": _IDLE_ARRAYS},
    "torch:cpu": {
        "test_a_result_with_one_value_written_again": _COPY,
        "test_a_value_of_any_array[finite]": _LESS,
        "test_a_body_behind_a_guard": _IDLE_ARRAYS,
        "test_a_loader_without_batches": _IDLE_ARRAYS,
        "test_an_optimizer_without_gradients": _IDLE_ARRAYS,
    },
    "jax:cpu": {
        "test_a_large_value_and_garbage": _MATCHED,
        "test_digits_that_are_cut_off[float16]": _MATCHED,
        "test_numbers_rounded_to_nothing": _MATCHED,
        "test_a_function_that_ignores_its_input": _LESS,
        "test_work_that_the_compiler_drops": _LESS,
        "test_an_identity_of_jit": _COPY,
        "test_a_loop_without_steps": _IDLE_ARRAYS,
        "test_a_value_of_any_array": _LESS,
        "test_an_empty_slice": _IDLE_ARRAYS,
        "test_views_only": _IDLE_ARRAYS,
    },
    "standin:numpy": {
        "test_results_in_turn[12]": _COPY,
        "test_a_reshaped_result": _COPY,
        "test_the_result_of_the_cpu_uploaded": _COPY,
        "test_the_result_of_the_cpu_read_from_a_file": _COPY,
        "test_a_result_of_the_setup_uploaded": _COPY,
        "test_numpy_in_the_call_and_an_upload": _COPY,
        "test_the_input_of_a_body": _IDLE_ARRAYS,
        "test_a_value_of_any_array[kind]": _LESS,
        "test_a_callable_without_a_result[has_a_mask_without_a_true]": _IDLE_ARRAYS,
        "test_an_output_that_the_cpu_alone_writes[has_a_mask_without_a_true]": _IDLE_ARRAYS,
        "test_a_body_that_uploads_and_does_no_more": _IDLE_ARRAYS,
        "test_a_body_whose_import_fails": _IDLE_ARRAYS,
        "test_an_empty_slice": _IDLE_ARRAYS,
    },
}
"""Dishonest workloads that pass, by device and name, with the reason why they cannot be told."""
_NO_LAUNCH = "the call makes no launch and no copy, and simulated devices count the time of nothing else"
REFUSED: Mapping[str, Mapping[str, str]] = {
    "simulated": {
        "test_a_value_of_python[a_list_of_floats]": _NO_LAUNCH,
        "test_a_value_of_python[a_set_of_ints]": _NO_LAUNCH,
        "test_one_element_of_many": _NO_LAUNCH,
        "test_a_view": _NO_LAUNCH,
        "test_a_transpose": _NO_LAUNCH,
        "test_a_reshape": _NO_LAUNCH,
    },
}
"""Honest workloads that are refused, by device and name, with the reason."""
_WHOLE_BODY = "a body of which a part may be no work: it is all timed"
_SETTLED = "calls after the first one write what is there already"
_NOTHING = "the result is zeros or NaN by its nature"
_HIDDEN = "the arrays are out of sight: in a class, or on the host"
_COLD = "memory that a process asks for anew is slower"
NOTED: Mapping[str, Mapping[str, str]] = {
    ANY: {
        "test_empty_input_in_a_body": _WHOLE_BODY,
        "test_an_upload_in_a_body": _WHOLE_BODY,
        "test_a_body_that_asserts": _WHOLE_BODY,
        "test_a_body_with_arrays_of_the_library": _WHOLE_BODY,
        "test_zeros_of_zeros": _NOTHING,
        "test_nan_of_nan": _NOTHING,
        "test_a_function_of_the_namespace[a_choice_of_nothing]": _NOTHING,
        "test_a_function_of_numpy[an_unpacked_function]": _NOTHING,
        "test_a_function[no_more_than_the_shape]": _NOTHING,
        "test_a_product_is_returned[a_callable_object]": _HIDDEN,
        "test_a_product_is_dropped[a_callable_object]": _HIDDEN,
        "test_a_product_is_kept[a_callable_object]": _HIDDEN,
        "test_a_memory_view": _HIDDEN,
        "test_there_and_back": _HIDDEN,
        "test_a_mask": _SETTLED,
        "test_an_output_of_nan": _SETTLED,
        "test_putting": _SETTLED,
        "test_shuffling": _SETTLED,
        "test_out[empty]": _SETTLED,
        "test_a_call_in_place[a_sort_of_itself]": _SETTLED,
        "test_a_call_in_place[a_filled_diagonal]": _SETTLED,
        "test_a_call_in_place[an_upper_triangle]": _SETTLED,
    },
    "standin:numpy": {
        "test_a_product_with_copies": "arrays of NumPy are on the host already",
        "test_an_upload": _COLD,
        "test_an_upload_dropped": _COLD,
    },
}
"""Honest workloads with a note, by device and name, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """How one workload ended; `notes` are its doubts by their codes, `ratio` its speedup."""

    device: str
    nodeid: str
    ending: Ending
    reason: str | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
    ratio: float | None = None

    @property
    def suite(self) -> Suite:
        """What its file holds."""
        return "dishonest" if "dishonest" in self.nodeid else "honest"

    @property
    def name(self) -> str:
        """Its name in its file."""
        return self.nodeid.partition("::")[2]

    @property
    def doubts(self) -> Set[str]:
        """The codes of its notes, without those that are no doubt."""
        return self.notes.keys() - SAID

    @property
    def is_green(self) -> bool:
        """Whether nothing is said against its speedup."""
        return self.ending == "passed"

    @property
    def is_red(self) -> bool:
        """Whether something other than noise is."""
        return self.ending in ("by a rule", "failed", "refused", "skipped")

    @property
    def may_be_chance(self) -> bool:
        """Whether another try may end otherwise: noise, or a doubt of an honest one."""
        is_honest = self.suite == "honest"
        doubted = self.is_red or (self.doubts and not self.is_listed(NOTED))
        return self.ending == "by noise" or bool(is_honest and doubted and not self.is_listed(REFUSED))

    def is_listed(self, listed: Mapping[str, Mapping[str, str]]) -> bool:
        """Return whether it is on a list."""
        names = {self.name, self.name.partition("[")[0]}
        return any(names & listed.get(on, {}).keys() for on in (self.device, ANY))

    def better(self, other: "Found") -> "Found":
        """Return what holds of two tries: a fault that is not chance shows in both."""
        if self.suite == "dishonest":
            return other
        return min(self, other, key=lambda found: (_ENDINGS.index(found.ending), len(found.doubts)))


def main() -> int:
    arguments = read_arguments()
    found = [
        each
        for device in arguments.devices
        for each in Runner(device, arguments.max_time, arguments.keyword).tries(arguments.tries)
    ]
    for device in arguments.devices:
        show(device, [each for each in found if each.device == device])
    if arguments.save:
        arguments.save.write_text(json.dumps([asdict(each) for each in found], indent=1), encoding="utf-8")
    if arguments.against:
        show_changes(load(arguments.against), found)
    return conclude(targets(found))


def read_arguments():
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("devices", nargs="*", default=DEVICES, help=f"of --gpuperf-gpu: {' '.join(DEVICES)}")
    parser.add_argument("--max-time", type=float, default=0.3, help="seconds of sampling for each test")
    parser.add_argument("--tries", type=int, default=3, help="runs of what may have ended so by chance")
    parser.add_argument("-k", dest="keyword", default="", help="only the workloads that pytest's -k selects")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write what was found, as JSON")
    parser.add_argument(
        "--against", type=Path, metavar="FILE", help="compare with what another run has saved"
    )
    return parser.parse_args()


# ---------------------------------------------------------------------------------------------------------
# A run
# ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs workloads on one device."""

    device: str
    max_time: float
    keyword: str

    def tries(self, most: int) -> list[Found]:
        """Run all workloads that fit the device, and again, for longer, what may be chance."""
        found = {each.nodeid: each for each in self.run([str(WORKLOADS)], self.max_time)}
        for number in range(1, most):
            again = [each.nodeid.removesuffix("[gpu]") for each in found.values() if each.may_be_chance]
            if again:
                for each in self.run(
                    [f"{WORKLOADS}/{nodeid}" for nodeid in again], self.max_time * 2**number
                ):
                    found[each.nodeid] = found[each.nodeid].better(each)
        return [*found.values()]

    def run(self, chosen: Sequence[str], max_time: float) -> Iterator[Found]:
        """Run tests in a process of their own; yield how each ended."""
        with tempfile.TemporaryDirectory(prefix="cheats-") as folder:
            report = Path(folder, "report.json")
            here = ("--rootdir", str(WORKLOADS), "-c", os.devnull, "--basetemp", str(Path(folder, "tmp")))
            ours = ("-p", "pytest_gpuperf.plugin", f"--gpuperf-gpu={self.device}", f"--gpuperf-json={report}")
            options = ("-q", "-p", "no:cacheprovider", "-k", self.keyword, f"--gpuperf-max-time={max_time}")
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *here, *ours, *options, *chosen],
                env={**os.environ, **ALONE, **ONE_THREAD, "PYTHONPATH": _import_path()},
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
            if done.returncode not in (0, 1) or not report.exists():
                raise SystemExit(
                    f"{self.device}: pytest ended with {done.returncode}\n{done.stdout}{done.stderr}"
                )
            for record in load_report(report).records:
                is_the_gpu_s = record.pairing is None or record.pairing.kind == "gpu"
                if not record.is_deselected and is_the_gpu_s:
                    yield _found(self.device, record)


def _import_path() -> str:
    above = os.environ.get("PYTHONPATH")
    return os.pathsep.join(filter(None, (SOURCES, above)))


def _found(device: str, record: Record) -> Found:
    notes = {note.code: note.text for note in record.notes if note.code not in OF_NOISE}
    return Found(
        device=device,
        nodeid=record.nodeid,
        ending=_ending(record, notes.keys() - SAID),
        reason=record.reason,
        notes=notes,
        ratio=record.speedup.value if record.speedup else None,
    )


def _ending(record: Record, doubts: Set[str]) -> Ending:
    match record.status:
        case "error":
            return "refused"
        case "inconclusive":
            return "by noise" if record.reason_code in OF_NOISE else "by a rule"
        case "recorded":
            return "noted" if doubts else "passed"
        case "passed" | "failed" | "skipped":
            return record.status


def load(path: Path) -> list[Found]:
    return [Found(**each) for each in json.loads(path.read_text(encoding="utf-8"))]


# ---------------------------------------------------------------------------------------------------------
# Tables
# ---------------------------------------------------------------------------------------------------------


def show(device: str, found: Sequence[Found]) -> None:
    """Print how often each ending was found on a device, and which workloads ended as they should not."""
    suites = {suite: [each for each in found if each.suite == suite] for suite in get_args(Suite)}
    rows = []
    for suite, of_suite in suites.items():
        count = Counter(each.ending for each in of_suite)
        rows.append([f"{suite}, {device}", str(len(of_suite)), *(str(count[each]) for each in _ENDINGS)])
    table(["workloads", "", *_ENDINGS], rows)
    for each in suites["honest"]:
        if each.is_red or (each.doubts and not each.is_listed(NOTED)):
            print(f"  honest, {'as listed, ' if each.is_listed(REFUSED) else ''}{_described(each)}")
    notes = Counter(code for each in suites["honest"] for code in each.notes)
    print("  honest, notes:", ", ".join(f"{count} {code}" for code, count in notes.items()) or "none")
    for each in suites["dishonest"]:
        if each.is_green:
            print(f"  dishonest, {'as listed, ' if each.is_listed(KNOWN) else ''}{_described(each)}")
    print()


def _described(found: Found) -> str:
    ratio = f" at {found.ratio:.3g}x" if found.ratio else ""
    notes = f" ({', '.join(found.doubts)})" if found.doubts else ""
    reason = f": {found.reason.splitlines()[0][:200]}" if found.reason else ""
    return f"{found.ending}: {found.name}{ratio}{notes}{reason}"


def show_changes(before: Iterable[Found], now: Iterable[Found]) -> None:
    """Print the workloads whose ending or notes differ from an earlier run; noise is no difference."""
    earlier = {(each.device, each.nodeid): each for each in before}
    devices = {each.device for each in earlier.values()}
    lines = []
    for each in (each for each in now if each.device in devices):
        old = earlier.get((each.device, each.nodeid))
        where = f"{each.suite}, {each.device}, was"
        if old is None:
            lines.append(f"{where} absent, is {_described(each)}")
        elif "by noise" not in (old.ending, each.ending) and old.ending != each.ending:
            lines.append(f"{where} {old.ending}, is {_described(each)}")
        elif new := each.notes.keys() - old.notes.keys():
            lines.append(f"{where} {old.ending}, has a new note {', '.join(sorted(new))}: {_described(each)}")
    print(*sorted(lines), f"{len(lines)} differ from the earlier run, noise apart\n", sep="\n")


def targets(found: Sequence[Found]) -> list[Target]:
    """Return what should not be found, beside what is on the lists."""
    honest = [each for each in found if each.suite == "honest"]
    red = sum(each.is_red and not each.is_listed(REFUSED) for each in honest)
    green = sum(each.suite == "dishonest" and each.is_green and not each.is_listed(KNOWN) for each in found)
    return [
        Target(name="honest workloads that are refused, fail or are in doubt by a rule", figure=red, limit=0),
        Target(name="dishonest workloads that pass", figure=green, limit=0),
    ]


if __name__ == "__main__":
    sys.exit(main())
