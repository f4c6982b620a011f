"""What a first GPU has to show, in one command of ten minutes: the parts of `gpu_parts.py`, in their order.

Every part runs in a process of its own, which a crash may end, and leaves its findings, one JSON object a
line, in `gpu.jsonl`. A run that was cut short goes on where it stopped: what the file has is not measured
again.
With `--short` the parts of a library share a process, because to start one takes longer than most parts.
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
from gpu_parts import PARTS, Finding, Part, Subject, written

LEAST = 15.0  # seconds that a part is worth starting with


def main() -> int:
    arguments = read_arguments()
    if arguments.look_at:
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


def measure(arguments: Namespace, file: Path) -> list[tuple[Part, str]]:
    """Run what is not in the file yet; return what there was no time for."""
    ended = {(line["part"], line["gpu"]) for line in read(file) if line["what"] == "ended"}
    parts = [part for part in PARTS if part.name in (arguments.parts or [part.name])]
    wanted = [
        (part, gpu) for part in parts for gpu in part.choices(arguments.gpus) if (part.name, gpu) not in ended
    ]
    left, started = list[tuple[Part, str]](), perf_counter()
    for together, choice in processes(wanted, share=arguments.short):
        remaining = arguments.seconds - (perf_counter() - started)
        if remaining < LEAST:
            left += [(part, choice) for part in together]
        else:
            run(together, choice, min(sum(part.seconds for part in together), remaining), arguments, file)
    return left


def processes(wanted: Sequence[tuple[Part, str]], *, share: bool) -> list[tuple[list[Part], str]]:
    """Return the parts of each process with their GPU: one, or all that are wanted of the GPU."""
    if not share:
        return [([part], choice) for part, choice in wanted]
    choices = dict.fromkeys(choice for _, choice in wanted)
    return [([part for part, its in wanted if its == choice], choice) for choice in choices]


def run(parts: Sequence[Part], choice: str, seconds: float, arguments: Namespace, file: Path) -> None:
    """Run some parts; what they found before one failed, or before their time was up, stays."""
    names = [part.name for part in parts]
    command = [sys.executable, __file__, "--look-at", *names, "--gpus", choice]
    command += ["--output", str(arguments.output), *(["--short"] if arguments.short else [])]
    begun = perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
        found, cause = done.stdout, f"exit code {done.returncode}: {done.stderr.strip()[-200:]}"
    except subprocess.TimeoutExpired as error:
        found, cause = (error.stdout or b"").decode(), f"its {seconds:.0f} s were up"
    lines = list(objects(found))
    ended = {line["part"] for line in lines if line["what"] == "ended"}
    lasted = round(perf_counter() - begun, 1)
    lines += [
        {"part": name, "what": "ended", "seconds": lasted, "cause": cause}
        for name in names
        if name not in ended
    ]
    with file.open("a", encoding="utf-8") as all_lines:
        for line in lines:
            all_lines.write("\n" + json.dumps({"gpu": choice, **line}))


def look(arguments: Namespace) -> int:
    """Print the findings of some parts on one GPU, and how each of them ended."""
    (choice,) = arguments.gpus
    subject = Subject(choice=choice, folder=arguments.output.resolve(), short=arguments.short)
    by_name = {part.name: part for part in PARTS}
    for name in arguments.look_at:
        begun, ended = perf_counter(), Finding(what="ended")
        try:
            for finding in by_name[name].findings(subject):
                print(written(finding, name), flush=True)
        except Exception as error:  # noqa: BLE001 - of any library; the other parts may still show something
            ended = Finding(what="ended", facts={"cause": f"{type(error).__name__}: {error}"[:500]})
        ended.facts["seconds"] = round(perf_counter() - begun, 1)
        print(written(ended, name), flush=True)
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
