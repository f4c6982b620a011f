"""What a first GPU has to show, in one command of eight minutes and one of four: the parts of `gpu_parts.py`.

The parts that are wanted most come first. Each runs in a process of its own, which a crash may end, and
writes as it goes: its findings to `gpu.jsonl`, one JSON object a line, and all that it prints to `gpu.log`.
A run may be cut off at any moment. The next one keeps what the file has, runs no part again that has ended,
and one whose time was up after all others. `--earlier` names a folder with the files of such a run, for an
output folder that is emptied before each command.
With `--short` the parts of a library share a process, because to start one takes longer than most parts.
"""

import faulthandler
import json
import os
import shutil
import subprocess
import sys
import traceback
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from select import select
from signal import SIGINT, SIGKILL, SIGTERM, signal
from threading import Thread
from time import perf_counter
from typing import Any

from common import Target, conclude, table
from gpu_libraries import LIBRARIES
from gpu_parts import PARTS, Finding, Part, Subject

STOPPED = {
    -SIGINT,
    -SIGTERM,
    -SIGKILL,
}  # exit codes of what was stopped from outside: nothing is wrong with it


def main() -> int:
    arguments = read_arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    file = arguments.output / "gpu.jsonl"
    if arguments.look_at:
        return look(arguments, file)
    signal(SIGTERM, lambda *_: sys.exit("stopped"))  # which ends the part that runs, too
    copy_missing(arguments.earlier, arguments.output)
    measure(arguments, file)
    lines = read(file)
    print_findings(lines)
    left = wanted(arguments, lines)
    for part, choice in left:
        print(f"{part.name} of {choice} has not ended: run the same command again")
    return max(conclude(list(targets(lines))), 2 if left else 0)


def read_arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument(
        "--gpus", nargs="+", default=list(LIBRARIES), help="as in --gpuperf-gpu; jax:cpu, too"
    )
    parser.add_argument("--output", type=Path, default=Path("gpu-results"), help="a folder for what is found")
    parser.add_argument("--earlier", type=Path, help="a folder with what an earlier run left, to go on with")
    parser.add_argument("--seconds", type=float, default=460.0, help="for all parts together")
    expected = ", ".join(f"{part.name} {part.expected} s" for part in PARTS)
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=[part.name for part in PARTS],
        metavar="PART",
        help=f"these alone; expected on a GPU, for each library: {expected}",
    )
    parser.add_argument("--short", action="store_true", help="small sizes and few turns, to see that it runs")
    parser.add_argument("--look-at", nargs="+", metavar="PART", help="be one of the processes")
    return parser.parse_args()


def copy_missing(source: Path | None, folder: Path) -> None:
    """Copy the files that the folder lacks; at any moment each is there whole, or not at all."""
    files = source.iterdir() if source is not None and source.is_dir() else ()
    for file in files:
        if file.is_file() and not (folder / file.name).exists():
            unfinished = folder / f"{file.name}.part"
            shutil.copyfile(file, unfinished)
            unfinished.replace(folder / file.name)


def wanted(arguments: Namespace, lines: Sequence[Mapping[str, Any]]) -> list[tuple[Part, str]]:
    """Return the parts that have not ended, each with its GPU; last those whose time was up before."""
    ended, cut = (
        {(line["part"], line["gpu"]) for line in lines if line["what"] == what}
        for what in ("ended", "cut off")
    )
    parts = [part for part in PARTS if part.name in (arguments.parts or [part.name])]
    pairs = [(part, gpu) for part in parts for gpu in part.choices(arguments.gpus)]
    left = [(part, gpu) for part, gpu in pairs if (part.name, gpu) not in ended]
    return sorted(left, key=lambda one: (one[0].name, one[1]) in cut)


def measure(arguments: Namespace, file: Path) -> None:
    """Run what has not ended yet, each part for which enough time is left."""
    started = perf_counter()
    waiting = processes(wanted(arguments, read(file)), share=arguments.short)
    while waiting:
        (together, choice), *waiting = waiting
        remaining = arguments.seconds - (perf_counter() - started)
        if sum(part.expected for part in together) / (10 if arguments.short else 1) <= remaining:
            others = run(together, choice, min(sum(part.seconds for part in together), remaining), arguments)
            waiting = [*([(others, choice)] if others else []), *waiting]


def processes(left: Sequence[tuple[Part, str]], *, share: bool) -> list[tuple[list[Part], str]]:
    """Return the parts of each process with their GPU: one, or all that are wanted of the GPU."""
    if not share:
        return [([part], choice) for part, choice in left]
    choices = dict.fromkeys(choice for _, choice in left)
    return [([part for part, its in left if its == choice], choice) for choice in choices]


def run(parts: Sequence[Part], choice: str, seconds: float, arguments: Namespace) -> list[Part]:
    """Run some parts in a process; return those that come after one in which it was stopped or crashed."""
    file, log = arguments.output / "gpu.jsonl", arguments.output / "gpu.log"
    names = [part.name for part in parts]
    command = [sys.executable, __file__, "--look-at", *names, "--gpus", choice]
    command += ["--output", str(arguments.output), *(["--short"] if arguments.short else [])]
    begun = perf_counter()
    with log.open("a+", encoding="utf-8", errors="replace") as printed:
        print(f"\n--- {' '.join(names)} of {choice}", file=printed, flush=True)
        before = printed.tell()
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=printed, stderr=printed, process_group=0
        ) as process:
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                stop(process)
        printed.seek(before)
        last = printed.read().strip()[-200:]
    ended = {line["part"] for line in read(file) if line["gpu"] == choice and line["what"] == "ended"}
    left = [part for part in parts if part.name not in ended]
    if left:
        how = {"seconds": round(perf_counter() - begun, 1)}
        if code is None:
            how |= {"what": "cut off", "cause": f"its {seconds:.0f} s were up"}
        else:
            what = "cut off" if code in STOPPED else "ended"
            how |= {"what": what, "cause": f"exit code {code}: {last}"}
        append(file, {"part": left[0].name, "gpu": choice, **how})
    return left[1:]


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started; `faulthandler` writes where it was."""
    for how in (SIGTERM, SIGKILL):
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, how)
            process.wait(2)


def look(arguments: Namespace, file: Path) -> int:
    """Write the findings of some parts on one GPU, and how each of them ended."""
    faulthandler.register(SIGTERM, all_threads=True, chain=True)
    if select([sys.stdin], [], [], 0)[0]:  # closed: the parent is gone already
        return 1
    Thread(target=end_with_parent, daemon=True).start()
    (choice,) = arguments.gpus
    subject = Subject(choice=choice, folder=arguments.output.resolve(), short=arguments.short)
    by_name = {part.name: part for part in PARTS}
    for name in arguments.look_at:
        begun, ended = perf_counter(), Finding(what="ended")
        try:
            for finding in by_name[name].findings(subject):
                at = round(perf_counter() - begun, 1)
                append(file, {"part": name, "gpu": choice, **finding.as_line(), "after": at})
        except Exception as error:  # noqa: BLE001 - of any library; the other parts may still show something
            traceback.print_exc()
            ended = Finding(what="ended", facts={"cause": f"{type(error).__name__}: {error}"[:500]})
        ended.facts["seconds"] = round(perf_counter() - begun, 1)
        append(file, {"part": name, "gpu": choice, **ended.as_line()})
    return 0


def end_with_parent() -> None:
    """End this process and all that it started once its parent is gone: the next run measures it again."""
    os.read(sys.stdin.fileno(), 1)
    os.killpg(0, SIGKILL)


def append(file: Path, line: Mapping[str, Any]) -> None:
    """Add a line; a line before it that was cut short stays apart from it."""
    with file.open("a", encoding="utf-8") as all_lines:
        all_lines.write("\n" + json.dumps(line, default=repr))


def read(file: Path) -> list[dict[str, Any]]:
    """Return the findings in the file, the last of each name: a part that was cut off finds some again."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return list({(line["part"], line["gpu"], line["what"]): line for line in objects(text)}.values())


def objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON object of each line; skip a line that was cut short."""
    for line in text.splitlines():
        if line.startswith("{"):
            with suppress(json.JSONDecodeError):
                yield json.loads(line)


def print_findings(lines: Sequence[dict[str, Any]]) -> None:
    rows = []
    for line in lines:
        figure = line.get("figure")
        shown = "" if figure is None else f"{figure:.4g}"
        if line["what"] in ("ended", "cut off"):
            shown = (
                f"{line['seconds']:.1f} s"
                if "cause" not in line
                else f"after {line['seconds']:.1f} s: {line['cause']}"
            )
        rows.append([f"{line['part']}, {line['gpu']}: {line['what']}", shown])
    table(["finding", "figure"], rows)


def targets(lines: Sequence[dict[str, Any]]) -> Iterator[Target]:
    """Yield the figures that were promised, and that each part ended without an error."""
    for line in lines:
        name = f"{line['part']}, {line['gpu']}: {line['what']}"
        if line["what"] == "ended":
            yield Target(name=f"{name} with an error", figure=float("cause" in line), limit=0)
        elif line.get("limit") is not None and line.get("figure") is not None:
            yield Target(name=name, figure=line["figure"], limit=line["limit"])


if __name__ == "__main__":
    sys.exit(main())
