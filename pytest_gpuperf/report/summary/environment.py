"""From the environment of a run to what is known of it, name by name."""

from collections.abc import Callable, Iterator

from pytest_gpuperf.model.record import Environment


def gpu_text(environment: Environment, shown: Callable[[object], str] = str) -> str:
    """Return the GPU, and its backend where the name has it not: `H200 through cupy`.

    `shown` returns a name as it is written.
    """
    gpu = environment.gpu
    if gpu is None:
        return "none"
    return shown(gpu.name) if gpu.backend in gpu.name else f"{shown(gpu.name)} through {shown(gpu.backend)}"


def environment_facts(environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield what is known of the environment, name by name."""
    gpu = environment.gpu
    names = ("name", "backend", "library", "driver", "runtime")
    device = {**{name: getattr(gpu, name, None) for name in names}, "missing": environment.gpu_reason}
    pools = {pool.library: f"{pool.threads} threads" for pool in environment.thread_pools}
    yield "python", environment.python
    for group, values in (("host", environment.host), ("CPU", environment.cpu), ("GPU", device)):
        yield from ((f"{group} {name}", str(value)) for name, value in values.items() if value is not None)
    for pairs in (environment.packages, pools, environment.variables or {}):
        yield from ((name, str(value)) for name, value in pairs.items())
