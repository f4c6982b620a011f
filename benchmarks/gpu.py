"""What a first GPU has to show, in one command of ten minutes: the parts of `gpu_parts.py`, in their order.

Every part runs in a process of its own and leaves its findings, one JSON object a line, in `gpu.jsonl`. A run
that was cut short goes on where it stopped: what the file has is not measured again.
"""

import json
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

from common import Target, conclude, table
from gpu_libraries import LIBRARIES
from gpu_parts import PARTS, Part, Subject, written

LEAST = 15.0  # seconds that a part is worth starting with


def main() -> int:
    arguments = read_arguments()
    if arguments.part:
        return look(arguments)
    file = arguments.output / "gpu.jsonl"
    arguments.output.mkdir(parents=True, exist_ok=True)
    left = measure(arguments, file)
    lines = read(file)
    print_findings(lines)
    for part, choice in left:
        print(f"no time was left for {part.name} of {choice}: run the same command again")
    return max(conclude(list(targets(lines))), 2 if left else 0)


def read_arguments() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument(
        "--gpus", nargs="+", default=list(LIBRARIES), help="as in --gpuperf-gpu; jax:cpu, too"
    )
    parser.add_argument("--output", type=Path, default=Path("gpu-results"), help="a folder for what is found")
    parser.add_argument("--seconds", type=float, default=560.0, help="for all parts together")
    parser.add_argument("--parts", nargs="+", choices=[part.name for part in PARTS], help="these alone")
    parser.add_argument("--short", action="store_true", help="small sizes and few turns, to see that it runs")
    parser.add_argument("--part", choices=[part.name for part in PARTS], help="be one of the processes")
    return parser.parse_args()


def measure(arguments: Namespace, file: Path) -> list[tuple[Part, str]]:
    """Run what is not in the file yet; return what there was no time for."""
    ended = {(line["part"], line["gpu"]) for line in read(file) if line["what"] == "ended"}
    parts = [part for part in PARTS if part.name in (arguments.parts or [part.name])]
    wanted = [
        (part, gpu) for part in parts for gpu in arguments.gpus if gpu.partition(":")[0] in part.libraries
    ]
    left, started = [], perf_counter()
    for part, choice in wanted:
        remaining = arguments.seconds - (perf_counter() - started)
        if (part.name, choice) in ended:
            continue
        if remaining < LEAST:
            left.append((part, choice))
        else:
            run(part, choice, min(part.seconds, remaining), arguments, file)
    return left


def run(part: Part, choice: str, seconds: float, arguments: Namespace, file: Path) -> None:
    """Run one part; what it found before it failed, or before its time was up, stays."""
    command = [sys.executable, __file__, "--part", part.name, "--gpus", choice]
    command += ["--output", str(arguments.output), *(["--short"] if arguments.short else [])]
    begun, cause = perf_counter(), None
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
        found, cause = done.stdout, done.stderr.strip().splitlines()[-1:] if done.returncode else None
    except subprocess.TimeoutExpired as error:
        found = (error.stdout or b"").decode()
        cause = [f"its {seconds:.0f} s were up"]
    ended = {"what": "ended", "seconds": round(perf_counter() - begun, 1)}
    lines = [*objects(found), {**ended, **({"cause": cause} if cause else {})}]
    with file.open("a", encoding="utf-8") as all_lines:
        for line in lines:
            all_lines.write("\n" + json.dumps({"part": part.name, "gpu": choice, **line}))


def look(arguments: Namespace) -> int:
    """Print the findings of one part on one GPU."""
    part = next(part for part in PARTS if part.name == arguments.part)
    (choice,) = arguments.gpus
    subject = Subject(choice=choice, folder=arguments.output.resolve(), short=arguments.short)
    for finding in part.look(subject):
        print(written(finding), flush=True)
    return 0


def read(file: Path) -> list[dict[str, Any]]:
    """Return the findings in the file."""
    return list(objects(file.read_text(encoding="utf-8"))) if file.exists() else []


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
        if line["what"] == "ended":
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
