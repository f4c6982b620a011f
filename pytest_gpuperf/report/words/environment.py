"""From a run's environment to words: its devices, its commit, and all that is known of the machine."""

from collections.abc import Iterator, Sequence

from pytest_gpuperf.model import units
from pytest_gpuperf.model.comparison import Commit
from pytest_gpuperf.model.plain_text import printable
from pytest_gpuperf.model.record import Environment, Record, Run

_DIGITS = 12  # of a commit's id: as many tell the commits of large repositories apart


def headline(run: Run, records: Sequence[Record]) -> str:
    """Return the devices: `CPU EPYC | GPU H200 through cupy`, and that a device or its times are none."""
    gpu, found = gpu_text(run.environment), run.environment.gpu
    cpus = [record.cpu.device for record in records if record.cpu]
    if cpus and all(cpu.emulated for cpu in cpus):
        return printable(f"simulated CPU | {gpu}: synthetic times")
    others = {record.gpu.device.name for record in records if record.gpu and record.is_emulated}
    if found and found.emulated:
        gpu = f"emulated: {gpu}, not a GPU"
    else:
        gpu = "; ".join([f"GPU {gpu}", *(f"emulated: {name}, not a GPU" for name in sorted(others))])
    return printable(f"CPU {run.environment.cpu.get('name') or 'unknown'} | {gpu}")


def commit_text(commit: Commit) -> str:
    """Return a commit with its branch: `commit 1b2c3d4e5f60 of main`."""
    branch = f" of {commit.branch}" if commit.branch else ""
    changed = ", with files that differ from it" if commit.changed else ""
    return printable(f"commit {commit.id[:_DIGITS]}{branch}{changed}")


def gpu_text(environment: Environment) -> str:
    """Return the GPU, and its backend where the name has it not: `H200 through cupy`."""
    gpu = environment.gpu
    if gpu is None:
        return "not looked for" if environment.gpu_reason is None else "none"
    return gpu.name if gpu.backend in gpu.name else f"{gpu.name} through {gpu.backend}"


def environment_facts(environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield what is known of the environment, name by name."""
    gpu = environment.gpu
    names = ("name", "backend", "library", "driver", "runtime")
    device = {**{name: getattr(gpu, name, None) for name in names}, "missing": environment.gpu_reason}
    pools = {pool.library: f"{pool.threads} threads" for pool in environment.thread_pools}
    yield "python", environment.python
    host = dict(environment.host)
    if isinstance(memory := host.get("memory"), int | float):
        host["memory"] = units.size(memory)
    for group, values in (("host", host), ("CPU", environment.cpu), ("GPU", device)):
        yield from ((f"{group} {name}", str(value)) for name, value in values.items() if value is not None)
    for pairs in (environment.packages, pools, environment.variables or {}):
        yield from ((name, str(value)) for name, value in pairs.items())
