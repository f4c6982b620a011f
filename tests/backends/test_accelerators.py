"""Accelerators that need no GPU, as they are: nx-parallel, scikit-learn-intelex and polars' engines."""

import json
import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from textwrap import indent

import numpy as np
import pytest
from cases import for_each
from plugins import skip_module

from pytest_gpuperf.devices.accelerators import chosen_accelerator
from pytest_gpuperf.model.errors import GpuPerfError, Unavailable
from pytest_gpuperf.work.values import snapshot, values_of

PACKAGES = ("networkx", "nx_parallel", "polars", "sklearn", "sklearnex")
if missing := [name for name in PACKAGES if find_spec(name) is None]:
    skip_module(f"{missing} are not installed; CI's second environment has them")

# Here, and not in an inner run, which would forget them: compiled modules cannot be imported twice.
for name in (*PACKAGES, "sklearn.cluster", "sklearn.linear_model", "sklearn.decomposition"):
    import_module(name)


@pytest.fixture(autouse=True)
def one_process():
    """Let nx-parallel work in threads: processes take seconds to start."""
    parallel = import_module("networkx").config.backends.parallel
    with parallel(active=True, backend="threading", n_jobs=1):
        yield


GRAPH = "graph = xp.gnp_random_graph(30, 0.3, seed=1)"
FRAME = """
frame = xp.LazyFrame({"k": np.arange(1000) % 7, "v": np.arange(1000.0), "s": ["a", None] * 500})
query = frame.group_by("k").agg(xp.col("v").mean(), xp.col("s").first()).sort("k")
"""
ONLY_AT_FIRST = f"""
{GRAPH}
calls = []
def call():
    calls.append(1)
    how = {{}} if len(calls) == 1 else {{"backend": "networkx"}}
    return xp.square_clustering(graph, **how)
return call
"""
IN_CONTEXT = f"""
{FRAME}
def in_context():
    with xp.Config(engine_affinity="streaming"):
        return query.collect()
return in_context
"""
IMPORTS = "from io import BytesIO\nimport numpy as np, pytest\nfrom sklearn.linear_model import Ridge\n"
POINTS = "points = np.random.default_rng(0).random((1000, 5))"


def of(setup, call):
    return f"{setup}\nreturn lambda: {call}"


NAMES = {
    "networkx:parallel": "networkx with nx-parallel ",
    "polars:streaming": "polars with its streaming engine ",
    "sklearnex": "scikit-learn with scikit-learn-intelex ",
}
SUPPORTED = {
    "networkx:parallel": [
        of(GRAPH, "xp.square_clustering(graph)"),
        of(f"{GRAPH}\nranks = xp.pagerank(graph)", "xp.square_clustering(graph)"),  # falls back in the setup
    ],
    "polars:streaming": [
        of(FRAME, "query.collect()"),
        of(FRAME, 'query.collect(engine="auto")'),
        of(FRAME, "xp.collect_all([query, query])"),
        of(FRAME, "xp.concat(list(query.collect_batches(lazy=True)))"),
    ],
    "sklearnex": [of(POINTS, "xp.linear_model.Ridge().fit(points, points[:, 0]).coef_")],
}
WRITTEN = """
def in_memory(frame):
    frame.write_ipc(BytesIO())
    frame.write_parquet(BytesIO())
frame = xp.DataFrame({"a": [1, 2]})
"""
CHOSEN = "accelerator:polars:streaming was switched off and yet ran "
REFUSED = {  # what was left to the library, left the accelerator idle, or chose one itself
    "networkx:parallel": [
        (of(GRAPH, "xp.pagerank(graph)"), "did not run pagerank, "),
        (ONLY_AT_FIRST, "the last call submitted no work to networkx with nx-parallel"),
    ],
    "polars:streaming": [
        (
            of(WRITTEN, "(frame.sum(), frame.write_csv(), frame.write_ndjson(), in_memory(frame))"),
            "the device was idle; collect a lazy query: ",
        ),
        (of(FRAME, "query"), "return what its method collect returns"),
        (
            of(FRAME, 'query.collect(engine="in-memory")'),
            "did not run LazyFrame.collect, which fell back to the library without it; ",
        ),
        (of(FRAME, 'xp.collect_all([query], engine="in-memory")'), "did not run polars.collect_all, "),
        (of(FRAME, 'query.collect(engine="streaming")'), CHOSEN),
        (of(FRAME, "query.collect(engine=xp.StreamingEngine())"), CHOSEN),
        (of(FRAME, 'xp.collect_all([query], engine="streaming")'), CHOSEN),
        (of(FRAME, 'query.execute(engine="streaming").head'), CHOSEN),
        (IN_CONTEXT, CHOSEN),
    ],
    "sklearnex": [
        (
            of(POINTS, "xp.linear_model.Ridge(positive=True).fit(points, points[:, 0]).coef_"),
            "did not run linear_model.Ridge.fit, ",
        ),
        (  # a class that the module imported is not patched
            of(POINTS, "Ridge().fit(points, points[:, 0]).coef_"),
            "the device was idle; call what it accelerates through xp, inside the test",
        ),
    ],
}


@pytest.fixture
def measured(pytester):
    """Measure the bodies of tests with an accelerator; return their records, in their order."""

    def call(choice, bodies, max_time):
        source = IMPORTS
        for number, body in enumerate(bodies):
            source += f"\n@pytest.mark.speedup\ndef test_{number}(xp):\n{indent(body.strip(), '    ')}\n"
        pytester.makepyfile(test_it=source)
        ours = [
            f"--gpuperf-gpu=accelerator:{choice}",
            "--gpuperf-json=r.json",
            f"--gpuperf-max-time={max_time}",
        ]
        alone = ["--gpuperf-lock=none", "-Werror", "-p", "no:randomly"]
        assert pytester.runpytest_inprocess(*alone, *ours, max_time).ret == pytest.ExitCode.OK
        return json.loads((pytester.path / "r.json").read_text(encoding="utf-8"))["records"]

    return call


@pytest.mark.parametrize("choice", NAMES)
def test_what_an_accelerator_supports_is_measured_and_compared_on_both_sides(measured, setting, choice):
    setting("POLARS_ENGINE_AFFINITY", "streaming")  # as a suite may have set it
    records = measured(choice, SUPPORTED[choice], "--gpuperf-max-time=3")
    assert len(records) == len(SUPPORTED[choice])
    for record in records:
        assert ("recorded", None) == (record["status"], record["reason"])
        assert (record["speedup"]["value"] > 0, record["check"]["agreed"]) == (True, True)
        device = record["gpu"]["device"]
        assert device["name"].startswith(NAMES[choice])
        assert device["name"].endswith(" on the CPU")
        assert device["emulated"] is True


@pytest.mark.parametrize("choice", NAMES)
def test_what_an_accelerator_leaves_to_the_cpu_or_the_test_chooses_itself_is_an_error(measured, choice):
    # The last call is looked at while there is time, and always where it takes a hundredth of that.
    records = measured(choice, [body for body, _ in REFUSED[choice]], "--gpuperf-max-time=10")
    for record, (_, reason) in zip(records, REFUSED[choice], strict=True):
        assert "error" == record["status"], reason
        assert reason in record["reason"]
        assert reason != CHOSEN or "; choose no engine in the test: " in record["reason"]


@for_each("engine", ["gpu", import_module("polars").GPUEngine()])
def test_the_gpu_engine_of_polars_that_the_test_chooses_itself_is_an_error(engine):
    cpu = chosen_accelerator("accelerator:polars").cpu()
    with (
        cpu.context(),
        pytest.raises(GpuPerfError, match=r"switched off and yet ran LazyFrame\.collect; choose no engine"),
        cpu.observe(),
        suppress(ModuleNotFoundError),  # here is no GPU
    ):
        cpu.xp.LazyFrame({"a": [1]}).collect(engine=engine)


def test_the_cpu_of_a_suite_that_patched_scikit_learn_itself_is_not_patched():
    sklearnex = import_module("sklearnex")
    cpu = chosen_accelerator("accelerator:sklearnex").cpu()
    sklearnex.patch_sklearn(verbose=False)
    try:
        with cpu.context():
            inside = cpu.xp.linear_model.Ridge
        after = cpu.xp.linear_model.Ridge
        with (
            cpu.context(),
            pytest.raises(GpuPerfError, match=r"yet ran linear_model\.Ridge\.fit"),
            cpu.observe(),
        ):
            after().fit(np.eye(3), np.ones(3))
    finally:
        sklearnex.unpatch_sklearn()
    assert inside.__module__.startswith("sklearn.")
    assert after.__module__.startswith("sklearnex.")


@for_each("choice", ["networkx:parallel", "polars:streaming", "sklearnex"])
def test_a_context_leaves_the_library_as_it_was(choice):
    backend = chosen_accelerator(f"accelerator:{choice}")
    polars, networkx = import_module("polars"), import_module("networkx")

    def settings():
        state = polars.Config.state(env_only=True).get("POLARS_ENGINE_AFFINITY")
        return state, repr(networkx.config), import_module("sklearnex").sklearn_is_patched(), jobs()

    jobs = import_module("nx_parallel").get_n_jobs
    before = settings()
    for device in (backend.gpu(""), backend.cpu()):
        with device.context():
            if (choice, device.kind) == ("networkx:parallel", "gpu"):
                assert (1, 2) == (jobs(), before[-1]), "as it was told, and not as in any test run"
        assert before == settings()


def contents(device, value):
    found = snapshot(values_of(value, device.holds, device.unpack), device.holds, device.asnumpy)
    return {leaf.path: leaf.value.tolist() for leaf in found}


def test_graphs_are_compared_by_nodes_edges_and_attributes():
    cpu = chosen_accelerator("accelerator:networkx:parallel").cpu()
    one, other = cpu.xp.Graph(), cpu.xp.Graph()
    one.add_edge("a", "b", weight=2.0)
    one.add_node("c", colour="red")
    other.add_node("c", colour="red")
    other.add_edge("b", "a", weight=2.0)
    assert contents(cpu, one) == contents(cpu, other)
    other["a"]["b"]["weight"] = 3.0
    assert contents(cpu, one) != contents(cpu, other)
    assert ["'a'", "'b'", "'c'"] == contents(cpu, one)["result['nodes']"]
    converted = import_module("nx_parallel").ParallelGraph(one)
    assert contents(cpu, one) == contents(cpu, converted), "a backend's graph is as one of networkx"


def test_data_frames_are_compared_by_their_columns():
    cpu = chosen_accelerator("accelerator:polars:streaming").cpu()
    frame = cpu.xp.DataFrame({"n": [1, 2], "s": ["a", None], "l": [[1.5], [2.5, 3.5]]})
    assert {
        "result['n']": [1, 2],
        "result['s']['missing']": [False, True],
        "result['s']['text']": ["a", ""],
        "result['l'][0][0]": 1.5,
        "result['l'][1][0]": 2.5,
        "result['l'][1][1]": 3.5,
    } == contents(cpu, frame)
    assert {"result": [1, 2]} == contents(cpu, frame["n"])


def test_a_backend_that_cannot_be_loaded_says_why_and_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "nx_parallel.interface", None)
    reason = (
        "cannot be used: import of nx_parallel.interface halted; .*; install a version of networkx that nx-"
    )
    with pytest.raises(Unavailable, match=reason) as cause:
        chosen_accelerator("accelerator:networkx:parallel").gpu("")
    assert cause.value.broken


def test_one_for_intels_gpus_says_what_to_install():
    with pytest.raises(Unavailable, match="is here for the CPU only; install scikit-learn-intelex") as cause:
        chosen_accelerator("accelerator:sklearnex:gpu").gpu("")
    assert cause.value.missing
