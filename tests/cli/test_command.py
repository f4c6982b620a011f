"""The command `gpuperf`: all of it, every exit code, and what a report, a disk or a reader may do to it."""

import csv
import json
import os
import subprocess
import sys
from array import array
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from pytest_gpuperf import schema
from pytest_gpuperf.cli import main
from pytest_gpuperf.devices.simulated import SimulatedBackend
from pytest_gpuperf.model.comparison import Commit, GateResult, Tolerance
from pytest_gpuperf.model.demand import Demand, Family, Pairing
from pytest_gpuperf.model.errors import Unavailable
from pytest_gpuperf.model.measurement import DeviceInfo, Measurement, Parity, Speedup
from pytest_gpuperf.model.record import DESELECTED, Environment, Record, Run
from pytest_gpuperf.report import history

CPU = DeviceInfo(kind="cpu", backend="numpy", name="a processor", library="numpy 2")
GPU = DeviceInfo(kind="gpu", backend="cupy", name="a GPU", library="cupy 13")
HERE = Environment(
    host={"name": "here"},
    cpu={"name": "a processor", "usable": 8},
    gpu=GPU,
    gpu_reason=None,
    python="3.11.7",
    packages={},
)
ELSEWHERE = replace(HERE, cpu={"name": "another", "usable": 8})
NO_GPU = replace(HERE, gpu=None, gpu_reason="no GPU was found")
NONE = "no GPU was found"
GATE = GateResult(baseline="base.json", started=None, tolerances=(Tolerance(metric="speedup", share=0.1),))
GATED = "measure it with --gpuperf-baseline and --gpuperf-fail-on: without a gate a run stops at its verdict"
HOSTILE = "test_a.py::test[\x1b[31m\r\nall is well\x07]"
FORMS = {
    "pytest-benchmark": "{",
    "github-action-benchmark": "[",
    "bencher": "{",
    "csv": "test,",
    "markdown": "### Speedups",
}
COMMANDS = ["devices", "show", "validate", "export", "recover", "compare", "baseline", "merge", "history"]


def measured(on, seconds) -> Measurement:
    return Measurement(
        device=on,
        samples=array("d", [seconds] * 12),
        block_calls=1,
        setup=None,
        first_call=0.1,
        warmup=0.1,
        warmup_calls=9,
        steady=True,
        synchronize_cost=0.0,
    )


def speedup(value, width=1.02) -> Speedup:
    return Speedup(
        value=value,
        low=value / width,
        high=value * width,
        confidence=0.95,
        resolution=0.01,
        rounds=12,
        evidence=None,
        autocorrelation=None,
    )


def record(nodeid="test_a.py::test_1", value=10.0, **changes) -> Record:
    known = {
        "nodeid": nodeid,
        "status": "recorded",
        "reason": None,
        "demand": Demand(),
        "alpha": 0.025,
        "scope": "call",
        "cpu": measured(CPU, 10e-3),
        "gpu": measured(GPU, 10e-3 / value),
        "speedup": speedup(value),
    }
    return Record(**{**known, **changes})


def skipped(nodeid="test_a.py::test_1", **changes) -> Record:
    absent = dict.fromkeys(("cpu", "gpu", "speedup", "scope"))
    return record(nodeid, **{**absent, "status": "skipped", "reason": NONE, **changes})


def run_of(*records, environment=HERE, started="2026-01-01T00:00:00+00:00", **changes) -> Run:
    return Run(environment=environment, started=started, records=records, **changes)


def written(name, *records, **changes) -> str:
    """Write a report where the command is called, and return its name."""
    Path(name).write_text(schema.text(run_of(*records, **changes)), encoding="utf-8")
    return name


def read(name) -> dict:
    content = json.loads(Path(name).read_text(encoding="utf-8"))
    schema.validate(content)
    return content


def values(name) -> dict:
    """Return the speedups in a report by node id."""
    found = read(name)["records"]
    return {each["nodeid"]: each["speedup"] and each["speedup"]["value"] for each in found}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.fixture
def call(capsys):
    """Run the command; return its exit code, the lines that it printed, and what it complained of."""

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out.splitlines(), said.err

    return run


@pytest.fixture
def refused(call):
    """Run a command that cannot be done; return what it complained of. No file is another, or new."""

    def run(*arguments):
        before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
        code, out, err = call(*arguments)
        assert (2, []) == (code, out)
        assert err.startswith("gpuperf: ")
        assert err.count("\n") == 1
        assert before == {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
        return err.removeprefix("gpuperf: ").rstrip("\n")

    return run


def usage(capsys, *arguments) -> str:
    """Return how a wrong call is answered."""
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    assert end.value.code == 2
    return capsys.readouterr().err


def apart(*arguments, first="", **options):
    """Run the command in a process of its own, after the line `first`."""
    program = f"{first}\nimport sys; from pytest_gpuperf.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, *map(str, arguments)]
    options = {"capture_output": True, "text": True, "check": False, "timeout": 60, **options}
    return subprocess.run(command, **options)


# Help


@pytest.mark.parametrize("command", [[], *([each] for each in COMMANDS), ["baseline", "update"]])
def test_help_says_what_it_does(capsys, command):
    with pytest.raises(SystemExit) as end:
        main([*command, "--help"])
    assert end.value.code == 0
    told = capsys.readouterr().out
    assert told.startswith("usage: " + " ".join(["gpuperf", *command]))
    before, _, _ = told.partition("positional arguments:" if "positional" in told else "options:")
    assert len(before.splitlines()) > 2 or command == ["baseline"], "a sentence beside the usage"


def test_help_lists_the_commands_and_the_exit_codes(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    told = capsys.readouterr().out
    assert [f"    {each} " in told for each in COMMANDS] == [True] * len(COMMANDS)
    said = "Exit codes: 0 fine; 1 a demand failed or a metric regressed; 2 it could not be done; 3 there was"
    assert f"{said} nothing to compare." in " ".join(told.split())


@pytest.mark.parametrize("command", ["compare", "export", "history", "merge"])
def test_help_has_an_example(capsys, command):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert f"example: gpuperf {command} " in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [[], ["nothing"], ["show"], ["export", "r.json"], ["baseline"], ["compare", "r.json"]]
)
def test_a_wrong_call_is_answered_with_the_usage(capsys, arguments):
    assert usage(capsys, *arguments).startswith("usage: gpuperf")


# Whatever a file holds


READERS = {
    "show": ["show", "wrong.json"],
    "validate": ["validate", "wrong.json"],
    "export": ["export", "wrong.json", "--as=csv"],
    "compare": ["compare", "right.json", "wrong.json"],
    "compare with": ["compare", "wrong.json", "right.json"],
    "baseline": ["baseline", "update", "base.json", "wrong.json"],
    "baseline of": ["baseline", "update", "wrong.json", "right.json"],
    "merge": ["merge", "right.json", "wrong.json", "-o", "merged.json"],
}


@pytest.mark.parametrize("arguments", READERS.values(), ids=READERS)
def test_what_is_no_report_is_named_and_nothing_is_written(refused, arguments):
    written("right.json", record())
    for content in (b"", b"{}", b"[1,", b"\xff", b"[" * 9999, b'{"schema_version": "9.9"}'):
        Path("wrong.json").write_bytes(content)
        assert refused(*arguments).startswith("wrong.json"), content


@pytest.mark.parametrize(
    "arguments", [each for name, each in READERS.items() if name != "baseline of"], ids=lambda each: each[0]
)
def test_a_report_that_is_not_there_is_named(refused, arguments):
    written("right.json", record())
    assert refused(*arguments) == "wrong.json cannot be read: No such file or directory; name a report"


@pytest.mark.parametrize(
    ("said", "changes"),
    [
        (["wrong.json: valid, 1 record"], {"speedup": None}),
        (["wrong.json: valid, 1 record"], {"cpu": measured(CPU, 0.0), "gpu": measured(GPU, 0.0)}),
    ],
)
def test_numbers_that_no_measurement_gives_break_no_command(call, said, changes):
    """Times of zero can be compared with nothing, and are no error of Python's."""
    written("right.json", record())
    odd = record(**changes)
    written("wrong.json", odd)
    assert (0, said, "") == call("validate", "wrong.json")
    for name, arguments in READERS.items():
        code, _, err = call(*arguments)
        assert name == "merge" or (code in (0, 1, 3) and err == "") or "measured nothing" in err


def test_a_number_beyond_what_can_be_computed_is_an_error_in_words(refused):
    far = replace(measured(GPU, 1e-3), samples=array("d", [1e200] * 11 + [3e200]))
    written("r.json", record(gpu=far))
    said = refused("export", "r.json", "--as=pytest-benchmark")
    assert said.startswith("there is a number that no measurement gives (")


def test_control_characters_of_a_report_do_not_reach_the_terminal(call):
    written("base.json", record(HOSTILE), record("test_a.py::test_2"))
    written("new.json", record(HOSTILE, 5.0, notes=("\x1b]0;owned\x07",)), record("test_a.py::test_2"))
    cpu = record(HOSTILE, pairing=Pairing(side="cpu", library="numpy"), gpu=None, speedup=None)
    gpu = record(HOSTILE, pairing=Pairing(side="gpu", library="cupy"), cpu=None, speedup=None)
    written("cpu.json", cpu)
    written("gpu.json", gpu)
    for arguments in (
        ["show", "new.json"],
        ["compare", "base.json", "new.json"],
        ["merge", "cpu.json", "gpu.json", "-o", "merged.json"],
        ["merge", "cpu.json", "cpu.json", "-o", "merged.json"],
        ["baseline", "update", "base.json", "new.json"],
    ):
        _, lines, err = call(*arguments)
        assert [line for line in (*lines, *err.splitlines()) if not line.isprintable()] == []
        assert "all is well]" not in lines
    assert any(r"\x1b[31m\r\nall is well\x07" in line for line in call("show", "new.json")[1])


def test_a_terminal_that_knows_few_letters_gets_what_it_can_show():
    written("r.json", record("test_é.py::test_\udcff"))
    ran = apart("show", "r.json", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (0, "") == (ran.returncode, ran.stderr)
    assert r"test_\udcff" in ran.stdout


# Output that cannot be written


def many() -> str:
    return written("r.json", *(record(f"test_a.py::test_{number}") for number in range(3000)))


def test_a_reader_that_has_seen_enough_is_no_error(folder):
    many()
    program = "import sys; from pytest_gpuperf.cli import main; sys.exit(main())"
    for arguments in (["show", "r.json"], ["export", "r.json", "--as=csv"]):
        with subprocess.Popen(
            [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as ran:
            ran.stdout.readline()
            ran.stdout.close()
            assert ran.stderr.read() == b""
        assert ran.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_an_output_that_is_full_is_an_error_in_words():
    with Path("/dev/full").open("w") as full:
        ran = apart("show", many(), stdout=full, stderr=subprocess.PIPE, capture_output=False)
    said = "gpuperf: standard output cannot be written: No space left on device\n"
    assert (2, said) == (ran.returncode, ran.stderr)


WRITERS = {
    "export": ["export", "r.json", "--as=csv", "-o", "out.json"],
    "baseline": ["baseline", "update", "out.json", "r.json"],
    "merge": ["merge", "cpu.json", "gpu.json", "-o", "out.json"],
    "compare": ["compare", "r.json", "r.json", "--markdown", "out.json"],
    "recover": ["recover", "r.journal", "out.json"],
}


def inputs() -> None:
    """Write what the commands that write are called with."""
    written("r.json", record())
    for kind in ("cpu", "gpu"):
        absent = {"gpu" if kind == "cpu" else "cpu": None, "speedup": None}
        written(f"{kind}.json", record(pairing=Pairing(side=kind, library="numpy"), **absent))
    journaled(record())


def journaled(*records, environment=HERE) -> None:
    """Write the journal of a run that was killed."""
    heading = {"started": run_of().started, "environment": schema.dump_environment(environment)}
    lines = [json.dumps(heading), *(json.dumps(schema.dump_record(each)) for each in records), '{"cut o']
    Path("r.journal").write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.parametrize("arguments", WRITERS.values(), ids=WRITERS)
def test_what_is_written_is_there_and_nothing_else(folder, call, arguments):
    inputs()
    before = {path.name for path in folder.iterdir()}
    code, lines, err = call(*arguments)
    assert (0, "") == (code, err)
    assert {path.name for path in folder.iterdir()} - before == {"out.json"}
    if "compare" not in arguments:
        assert "out.json" in lines[-1] or "1 test joined" in lines[-1]


@pytest.mark.parametrize("arguments", WRITERS.values(), ids=WRITERS)
def test_a_full_disk_is_named_and_leaves_nothing(refused, monkeypatch, arguments):
    def full(_):
        raise OSError(28, "No space left on device")

    inputs()
    monkeypatch.setattr(os, "fsync", full)
    assert refused(*arguments) == "out.json: No space left on device"


def test_a_file_that_may_not_grow_leaves_what_was_there(folder):
    written("base.json", record("test_a.py::test_0"))
    before = Path("base.json").read_bytes()

    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))"
    ran = apart("baseline", "update", "base.json", many(), first=limit)
    assert (2, "gpuperf: base.json: File too large\n") == (ran.returncode, ran.stderr)
    assert before == Path("base.json").read_bytes()
    assert {path.name for path in folder.iterdir()} == {"base.json", "r.json"}


@pytest.mark.parametrize("arguments", WRITERS.values(), ids=WRITERS)
def test_a_folder_that_may_only_be_read_is_named(folder, refused, monkeypatch, arguments):
    """As root nothing is read-only, and so it is the system's answer that is put in place."""
    inputs()
    opened = Path.open

    def only_read(path, mode="r", *others, **named):
        if "r" not in mode:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, mode, *others, **named)

    monkeypatch.setattr(Path, "open", only_read)
    said = refused(*arguments)
    if arguments[0] in ("export", "compare", "merge"):
        assert said == "no file can be written at out.json (Permission denied); choose another place"
    else:
        assert said == "out.json: Permission denied"


@pytest.mark.parametrize("arguments", WRITERS.values(), ids=WRITERS)
def test_a_folder_that_is_not_there_is_named(refused, arguments):
    inputs()
    where = [f"nowhere/{each}" if each == "out.json" else each for each in arguments]
    said = refused(*where)
    assert "nowhere" in said
    assert "no folder nowhere" in said or "No such file or directory" in said


# devices


class Backend(SimulatedBackend):
    """A backend whose GPU is there, missing, or broken."""

    def __init__(self, name, found=None, *, automatic=False, count=1):
        super().__init__(name=name)
        self.found, self.automatic, self.counted = found, automatic, count

    def gpu(self, selector):
        if isinstance(self.found, Exception):
            raise self.found
        return super().gpu("")

    def count(self):
        return self.counted


@pytest.fixture
def offering(monkeypatch):
    def call(*offered):
        monkeypatch.setattr("pytest_gpuperf.devices.registry.backends", lambda *_: list(offered))

    return call


def test_devices_lists_what_is_there_and_what_is_missing_with_its_remedy(call, offering):
    missing = Backend("missing", Unavailable("it is not installed;\ninstall it"))
    broken = Backend("broken", RuntimeError("CUDA error:\n\x1b[1mout of luck"))
    offering(missing, broken, Backend("works", automatic=True), Backend("two", count=2))
    code, lines, err = call("devices")
    assert (0, "") == (code, err)
    assert lines[0].startswith("CPU  ")
    assert lines[2] == "-    missing  it is not installed; install it"
    assert lines[3] == r"-    broken   it cannot be used: RuntimeError: CUDA error: \x1b[1mout of luck"
    assert lines[4].startswith("GPU  works    simulated GPU, numpy")
    assert lines[4].endswith("auto takes it")
    assert [line.split()[1] for line in lines[5:7]] == ["two:0", "two:1"]
    assert not any("auto takes it" in line for line in lines[5:7])


def test_devices_for_programs(call, offering):
    offering(Backend("missing", Unavailable("it is not installed")), Backend("works", automatic=True))
    code, lines, _ = call("devices", "--json")
    found = json.loads("\n".join(lines))
    missing, works = found["gpus"]
    assert (0, "works") == (code, found["auto"])
    assert (False, "it is not installed", None) == (missing["usable"], missing["reason"], missing["name"])
    assert (True, None, True) == (works["usable"], works["reason"], works["taken_by_auto"])
    assert found["cpu"]["usable"] > 0


def test_auto_never_takes_a_cpu_that_only_stands_for_a_gpu(call, offering):
    class Sycl(Backend):
        def gpu(self, selector):
            if not selector:
                raise Unavailable("SYCL sees no Intel GPU")
            return super().gpu(selector)

    offering(Sycl("sycl", automatic=True))
    found = json.loads("\n".join(call("devices", "--json")[1]))
    usable = {each["choice"]: each["usable"] for each in found["gpus"]}
    assert usable == {"sycl": False, "sycl:cpu": True}
    assert found["auto"] is None


def test_where_nothing_can_be_used_auto_takes_nothing(call, offering):
    offering(Backend("broken", ImportError("half of it"), automatic=True))
    assert json.loads("\n".join(call("devices", "--json")[1]))["auto"] is None


def test_devices_of_this_machine(call):
    code, lines, _ = call("devices")
    assert code == 0
    assert {"cupy", "sycl", "torch", "jax", "simulated"} <= {line.split()[1] for line in lines[2:-3] if line}


# show and validate


def test_show_prints_the_table_and_the_reasons(call):
    written("r.json", record(), record("test_a.py::test_2", status="failed", reason="too slow"))
    code, lines, _ = call("show", "r.json")
    assert code == 0
    assert lines[0] == "CPU a processor | GPU a GPU through cupy"
    assert any(line.split()[:1] == ["test_1"] and line.endswith("recorded") for line in lines)
    assert "test_2: too slow" in lines


def test_show_of_a_report_without_tests_says_so(call):
    written("r.json", skipped(reason=DESELECTED))
    assert (0, ["no test with a speedup marker ran"], "") == call("show", written("empty.json"))
    assert call("show", "r.json")[1] == ["no test with a speedup marker ran"]


def test_show_says_that_a_report_is_not_all(call):
    assert call("show", written("r.json", record(), complete=False))[1][-2:] == [
        "",
        "the run ended early: this is not all of it",
    ]


def test_show_of_a_machine_that_is_not_named(call):
    written("r.json", record(), environment=replace(HERE, cpu={}))
    assert call("show", "r.json")[1][0] == "CPU unknown | GPU a GPU through cupy"


@pytest.mark.parametrize(("expected", "count"), [("0 records", 0), ("1 record", 1), ("2 records", 2)])
def test_validate_counts_the_records(call, expected, count):
    written("r.json", *(record(f"test_a.py::test_{number}") for number in range(count)))
    assert (0, [f"r.json: valid, {expected}"], "") == call("validate", "r.json")


# export


@pytest.mark.parametrize(("form", "begins"), FORMS.items())
def test_an_export_is_the_same_on_standard_output_and_in_a_file(capsys, form, begins):
    written("r.json", record(), record("test_a.py::test_2"))
    assert main(["export", "r.json", "--as", form]) == 0
    printed = capsys.readouterr().out
    assert main(["export", "r.json", "--as", form, "-o", "out"]) == 0
    assert capsys.readouterr().out == f"out: 2 records as {form}\n"
    kept = Path("out").read_bytes().decode()
    assert kept.startswith(begins)
    assert kept.splitlines() == printed.splitlines()


def test_an_export_as_csv_has_a_row_for_each_test(capsys):
    written("r.json", record(), record(HOSTILE))
    main(["export", "r.json", "--as=csv"])
    rows = list(csv.DictReader(StringIO(capsys.readouterr().out)))
    assert len(rows) == 2
    assert float(rows[0]["speedup_x"]) == 10


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("output", ["r.json", "./r.json", "link.json"])
def test_an_export_does_not_overwrite_its_report(refused, form, output):
    written("r.json", record())
    Path("link.json").hardlink_to("r.json")
    said = refused("export", "r.json", "--as", form, "-o", output)
    assert said == f"{Path(output)} is read by this command; name another file to write"


@pytest.mark.parametrize("form", FORMS)
def test_an_export_leaves_a_report_and_other_peoples_json_as_they_are(refused, form):
    written("r.json", record())
    written("base.json", record())
    Path("package.json").write_text('{"name": "mine", "private": true}')
    for name in ("base.json", "package.json"):
        said = refused("export", "r.json", "--as", form, "-o", name)
        assert said == f"{name} is there and no file of {form}; name another file"


@pytest.mark.parametrize("form", FORMS)
def test_an_export_overwrites_its_own_form_and_an_empty_file_only(refused, call, form):
    written("r.json", record())
    Path("mine").write_text("my notes")
    said = refused("export", "r.json", "--as", form, "-o", "mine")
    assert said == f"mine is there and no file of {form}; name another file"
    Path("mine").write_text("")
    assert [call("export", "r.json", "--as", form, "-o", "mine")[0] for _ in range(2)] == [0, 0]


def test_an_export_goes_into_no_folder_and_no_pipe(refused):
    written("r.json", record())
    Path("folder").mkdir()
    os.mkfifo("pipe")
    assert refused("export", "r.json", "--as=csv", "-o", "folder") == "folder is a folder; name a file in it"
    assert "pipe is no regular file" in refused("export", "r.json", "--as=csv", "-o", "pipe")


def test_an_unknown_form_is_answered_with_the_known_ones(capsys):
    assert "choose from" in usage(capsys, "export", "r.json", "--as=excel")


# recover


def test_recover_takes_nothing_that_is_there(refused):
    inputs()
    written("out", record())
    assert refused("recover", "r.journal", "out") == "out exists; name a new file, so that nothing is lost"


@pytest.mark.parametrize(
    "content", ["", "{}\n", "[]\n[]\n", "1\n", '{"environment": 1, "started": 1}\n', "\udcff\n"]
)
def test_what_is_no_journal_makes_no_report(refused, content):
    Path("r.journal").write_text(content, encoding="utf-8", errors="surrogateescape")
    assert refused("recover", "r.journal", "out")


def test_a_journal_that_cannot_be_read_is_named(refused):
    Path("folder").mkdir()
    os.mkfifo("pipe")
    assert refused("recover", "nowhere", "out") == "nowhere: No such file or directory"
    assert refused("recover", "folder", "out") == "folder is no file; name the journal of a run"
    assert refused("recover", "pipe", "out") == "pipe is no file; name the journal of a run"


def test_a_recovered_report_is_incomplete(call):
    inputs()
    assert call("recover", "r.journal", "out")[1] == ["out: 1 record recovered; r.journal can be removed"]
    assert read("out")["complete"] is False


def test_a_recovered_report_has_the_gpu_that_only_its_records_tell(call):
    emulated = measured(replace(GPU, emulated=True), 1e-3)
    alone = record(gpu=None, speedup=None)
    journaled(alone, record(OTHER, gpu=emulated), environment=replace(HERE, gpu=None))
    assert call("recover", "r.journal", "out")[0] == 0
    found = read("out")["environment"]
    assert ("a GPU", None) == (found["gpu"]["name"], found["gpu_reason"])
    assert "emulated: not a GPU's speedup" in call("show", "out")[1][0]


@pytest.mark.parametrize(
    ("expected", "environment"), [(GPU.name, HERE), (None, NO_GPU)], ids=["a heading's own", "none at all"]
)
def test_a_recovered_report_has_the_gpu_of_its_heading(call, expected, environment):
    other = measured(replace(GPU, name="another"), 1e-3)
    journaled(record(gpu=other if environment.gpu else None, speedup=None), environment=environment)
    call("recover", "r.journal", "out")
    found = read("out")["environment"]
    assert (expected, environment.gpu_reason) == (found["gpu"] and found["gpu"]["name"], found["gpu_reason"])


@pytest.mark.parametrize("command", ["show", "validate"])
def test_a_journal_is_called_so_and_how_to_make_a_report_of_it(refused, command):
    inputs()
    assert refused(command, "r.journal") == (
        "r.journal: this is the journal of a run that did not end; gpuperf recover JOURNAL REPORT makes a "
        "report of what it measured"
    )


def test_a_report_needs_no_recovery(refused):
    written("r.json", record())
    said = "r.json is a report, not a journal, and needs no recovery"
    assert refused("recover", "r.json", "out") == said
    Path("r.json").write_text(json.dumps(read("r.json")) + "\n", encoding="utf-8")  # on one line
    assert refused("recover", "r.json", "out") == said


def test_an_empty_journal_is_called_so(refused):
    Path("r.journal").touch()
    said = "r.journal is empty: the run ended before it measured anything"
    assert refused("recover", "r.journal", "out") == said


# compare


def test_nothing_got_worse(call):
    written("base.json", record(), record("test_a.py::test_2"))
    written("new.json", record(value=10.1), record("test_a.py::test_2"))
    told = "baseline base.json of 2026-01-01 00:00 (tolerance: speedup 10 %): 2 not regressed"
    assert (0, [told], "") == call("compare", "base.json", "new.json")


def test_what_got_worse_is_a_line_the_gravest_first_and_the_exit_code(call):
    written("base.json", *(record(f"test_a.py::test_{number}") for number in range(3)))
    new = [record("test_a.py::test_0", 9.1), record("test_a.py::test_1", 5.0), record("test_a.py::test_2")]
    written("new.json", *new)
    code, lines, _ = call("compare", "base.json", "new.json")
    worse = (
        "speedup got worse: 5.00x [4.90, 5.10], baseline 10.0x [9.80, 10.2]: -50.0 % [-51.9, -48.0], "
        "10 % less is allowed"
    )
    assert code == 1
    assert lines[0] == f"test_a.py::test_1: regressed: {worse}"
    assert lines[1].startswith("test_a.py::test_0: cannot tell: speedup in doubt: 9.10x")
    assert lines[3].endswith("1 regressed, 1 cannot tell, 1 not regressed")
    assert lines[4:] == [f"FAILED: test_a.py::test_1: {worse}"]


@pytest.mark.parametrize(
    ("expected", "options"),
    [
        (1, ["--fail-on=speedup:10%"]),
        (0, ["--fail-on=speedup:60%"]),
        (1, ["--fail-on=gpu:10"]),
        (0, ["--fail-on=cpu:10%"]),
        (1, ["--fail-on=cpu:10%", "--fail-on=gpu:10%"]),
        (0, ["--fail-on=cpu:10%", "--fail-on=improvement"]),
    ],
)
def test_what_may_not_get_worse_is_chosen(call, expected, options):
    written("base.json", record())
    written("new.json", record(value=5.0))
    assert expected == call("compare", "base.json", "new.json", *options)[0]


@pytest.mark.parametrize(
    ("expected", "options"),
    [(0, []), (1, ["--fail-on=improvement", "--fail-on=speedup:10%"]), (2, ["--fail-on=improvement"])],
)
def test_what_got_better_fails_only_where_that_is_asked_for(call, expected, options):
    written("base.json", record())
    written("new.json", record(value=20.0))
    assert expected == call("compare", "base.json", "new.json", *options)[0]


@pytest.mark.parametrize(("expected", "option"), [(0, "warn"), (1, "fail"), (0, "pass")])
def test_doubt_ends_as_was_chosen(call, expected, option):
    written("base.json", record())
    written("new.json", record(value=9.1))
    assert expected == call("compare", "base.json", "new.json", f"--inconclusive={option}")[0]


@pytest.mark.parametrize(
    ("expected", "gate"),
    [
        ("more time (max_time) or a quieter machine would decide it", GATE),
        (GATED, replace(GATE, tolerances=())),
        (GATED, None),
    ],
    ids=["a gate", "a baseline alone", "neither"],
)
def test_what_would_decide_a_doubt_depends_on_how_the_new_run_was_measured(call, expected, gate):
    written("base.json", record())
    written("new.json", record(value=9.0, speedup=speedup(9.0, width=1.1)), gate=gate)
    code, lines, _ = call("compare", "base.json", "new.json", "--inconclusive=fail")
    assert code == 1
    assert [True, True] == [line.endswith(expected) for line in lines if "in doubt" in line and "x [" in line]


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("argument --fail-on: 'warmth' is no metric; say one of speedup", ["warmth:1%"]),
        ("argument --fail-on: 'speedup' has no percentage", ["speedup"]),
        ("argument --fail-on: 'speedup:-1%' has no percentage", ["speedup:-1%"]),
        ("argument --fail-on: 'speedup:nan%' has no percentage", ["speedup:nan%"]),
        ("argument --fail-on: 'speedup:100%': speedup cannot lose 100 %", ["speedup:100%"]),
    ],
)
def test_a_tolerance_that_is_none_is_answered_with_what_is(capsys, said, asked):
    assert said in usage(capsys, "compare", "a", "b", *(f"--fail-on={each}" for each in asked))


def test_a_metric_has_one_tolerance(refused):
    said = refused("compare", "a", "b", "--fail-on=gpu:1%", "--fail-on=gpu:2%")
    assert said == "gpu has two tolerances; keep one"


def test_a_lost_measurement_fails_as_it_does_in_pytest(call):
    """A failed measurement is never a green one: the rule of the gate, for bare markers, too."""
    lost = record("test_a.py::test_2", status="error", reason="the GPU was lost", speedup=None)
    written("base.json", record(), record("test_a.py::test_2"))
    written("new.json", record(), lost)
    code, lines, _ = call("compare", "base.json", "new.json")
    said = "FAILED: test_a.py::test_2: the gate has no valid measurement: the GPU was lost"
    assert (1, said) == (code, lines[-1])


def test_an_unmarked_test_that_never_had_a_measurement_fails_here_no_more_than_in_pytest(call):
    absent = dict.fromkeys(("cpu", "gpu", "speedup"))
    never = record("test_a.py::test_2", status="error", reason="it raised", source="all", **absent)
    written("base.json", record(), never)
    written("new.json", record(), never)
    assert 0 == call("compare", "base.json", "new.json")[0]


def test_an_unmarked_test_that_lost_its_measurement_fails_as_it_does_in_pytest(call):
    lost = record("test_a.py::test_2", status="error", reason="it raised", source="all", speedup=None)
    written("base.json", record(), record("test_a.py::test_2", source="all"))
    written("new.json", record(), lost)
    code, lines, _ = call("compare", "base.json", "new.json")
    said = "FAILED: test_a.py::test_2: the gate has no valid measurement: it raised"
    assert (1, said) == (code, lines[-1])


@pytest.mark.parametrize(("expected", "options"), [(1, []), (0, ["--allow-missing"])])
def test_a_test_of_the_baseline_that_did_not_run_fails(call, expected, options):
    written("base.json", record(), record("test_a.py::test_2"), record("test_b.py::test_3"))
    written("new.json", record())
    code, lines, _ = call("compare", "base.json", "new.json", *options)
    assert expected == code
    told = (
        "FAILED: 1 of the baseline's tests did not run: test_a.py::test_2; renamed, unmarked or deselected?"
    )
    assert expected == sum(line.startswith(told) for line in lines)
    assert not expected or "say --allow-missing, or" in lines[-1], "the name that it has here"


@pytest.mark.parametrize(
    ("new", "environment"),
    [
        ([record()], ELSEWHERE),
        ([record("test_a.py::new")], HERE),
        ([], HERE),
        ([skipped()], NO_GPU),
    ],
    ids=["another machine", "other tests", "no test", "no GPU"],
)
def test_where_nothing_can_be_compared_the_exit_code_says_so(call, new, environment):
    written("base.json", record())
    written("new.json", *new, environment=environment)
    assert call("compare", "base.json", "new.json", "--allow-missing")[0] == 3
    assert call("compare", "base.json", "new.json", "--strict")[0] == 3


def test_a_baseline_that_measured_nothing_compares_nothing(call):
    written("base.json", skipped(), environment=NO_GPU)
    written("new.json", record())
    assert call("compare", "base.json", "new.json")[0] == 3


@pytest.mark.parametrize(("expected", "environment"), [(0, NO_GPU), (3, HERE)])
def test_a_runner_without_a_gpu_may_be_excused(call, expected, environment):
    written("base.json", record())
    written("new.json", skipped(), environment=environment)
    assert expected == call("compare", "base.json", "new.json", "--allow-no-gpu")[0]
    assert call("compare", "base.json", "new.json")[0] == 3


def test_the_remedy_for_no_gpu_has_the_name_that_it_has_here(call):
    written("base.json", record())
    written("new.json", skipped(), environment=NO_GPU)
    assert call("compare", "base.json", "new.json")[1][-1].endswith("that has no GPU say --allow-no-gpu")


@pytest.mark.parametrize(("expected", "options"), [(0, []), (1, ["--strict"])])
def test_one_test_that_cannot_be_compared_fails_where_that_is_asked_for(call, expected, options):
    another = measured(replace(GPU, name="another GPU"), 1e-3)
    written("base.json", record(), record("test_a.py::test_2"))
    written("new.json", record(), record("test_a.py::test_2", gpu=another))
    assert expected == call("compare", "base.json", "new.json", *options)[0]


def test_of_a_folder_the_newest_of_this_machine_is_compared_with(call):
    Path("folder").mkdir()
    written("folder/old.json", record(value=20.0), started="2026-01-01T00:00:00+00:00")
    written("folder/new.json", record(value=10.0), started="2026-01-02T00:00:00+00:00")
    written("folder/else.json", record(), started="2026-01-03T00:00:00+00:00", environment=ELSEWHERE)
    written("folder/none.json", skipped(), started="2026-01-04T00:00:00+00:00", environment=NO_GPU)
    code, lines, _ = call("compare", "folder", written("now.json", record()))
    assert code == 0
    assert lines[-1].startswith("baseline new.json of 2026-01-02")


def test_an_empty_folder_has_nothing_to_compare_with(refused):
    Path("folder").mkdir()
    written("new.json", record())
    assert refused("compare", "folder", "new.json") == "folder has no report to compare with"


def test_a_report_of_a_run_that_ended_early_fails(call):
    written("base.json", record())
    written("new.json", record(), complete=False)
    code, lines, _ = call("compare", "base.json", "new.json")
    assert (1, "FAILED: new.json is incomplete: its run ended early") == (code, lines[-1])


def test_a_baseline_of_a_run_that_ended_early_is_called_so(call):
    written("base.json", record(), complete=False)
    code, lines, _ = call("compare", "base.json", written("new.json", record()))
    said = "the run of the baseline base.json ended early: tests that it did not reach are new"
    assert (0, 1) == (code, sum(said in line for line in lines))


def test_files_that_only_the_baseline_has_are_named(call):
    names = [f"{letter}.py::test_{number}" for letter in "bcde" for number in range(2)]
    written("base.json", record(), *map(record, names))
    code, lines, _ = call("compare", "base.json", written("new.json", record()))
    said = "the new report has nothing of b.py, c.py, d.py and 1 more (tests in the baseline: 8)"
    assert (0, said) == (code, lines[-1])
    assert "nothing of" not in "".join(call("compare", "base.json", "base.json")[1])


def test_of_many_changes_the_gravest_have_rows_and_all_are_counted(call):
    names = [f"test_a.py::test_{number}" for number in range(60)]
    written("base.json", *map(record, names))
    written("new.json", *(record(name, 5.0 if number >= 30 else 20.0) for number, name in enumerate(names)))
    code, lines, _ = call("compare", "base.json", "new.json")
    assert code == 1
    assert [": regressed: " in line for line in lines[:50]] == [True] * 30 + [False] * 20
    assert lines[50] == "and 10 more tests: 10 improved"
    assert sum(line.startswith("FAILED: ") for line in lines) == 30


def test_a_summary_is_written_over_its_like_only(refused, call):
    written("base.json", record())
    said = "base.json is read by this command; name another file to write"
    assert refused("compare", "base.json", "base.json", "--markdown=base.json") == said
    Path("notes.md").write_text("what I think of it", encoding="utf-8")
    said = "notes.md is there and no summary of ours; name another file"
    assert refused("compare", "base.json", "base.json", "--markdown=notes.md") == said
    assert [call("compare", "base.json", "base.json", "--markdown=s.md")[0] for _ in range(2)] == [0, 0]
    assert Path("s.md").read_text(encoding="utf-8").startswith("### Speedups")


def test_a_familys_threshold_is_compared_and_told_once(call):
    from pytest_gpuperf.analysis import threshold

    def family(*won):
        sizes = tuple(float(size) for size in range(1, len(won) + 1))
        found = [
            record(
                f"test_a.py::test_n[{size:g}]",
                2.0 if wins else 0.5,
                family=Family(name="test_n", parameter="n", size=size, sizes=sizes),
            )
            for size, wins in zip(sizes, won, strict=True)
        ]
        return {"records": tuple(found), "thresholds": threshold.find(found)}

    for name, won in {"base.json": (False, True, True), "new.json": (False, False, True)}.items():
        Path(name).write_text(schema.text(replace(run_of(), **family(*won))), encoding="utf-8")
    code, lines, _ = call("compare", "base.json", "new.json", "--fail-on=threshold:10%")
    assert code == 1
    (failure,) = (line for line in lines if line.startswith("FAILED"))
    said = "threshold got worse: the GPU wins from 3 on, in the baseline from 2 on; 10 % more is allowed"
    assert failure == f"FAILED: test_a.py::test_n[3]: {said}"


SUITE = """
import pytest

@pytest.mark.speedup
@pytest.mark.parametrize("n", range(4))
def test_fast(device, n):
    gpu = {gpu}[n]
    if gpu is None and device.kind == "gpu":
        raise ValueError("lost")
    return lambda: device.launch(10e-3 if device.kind == "cpu" else gpu)
"""


def test_compare_says_what_pytest_says_of_the_same_two_reports(pytester, capsys):
    """Worse, better, the same, and lost: outcomes, reasons, notes and failures are those of the gate."""
    common = (
        "-p",
        "no:randomly",
        "-W",
        "default",
        "--gpuperf-gpu=simulated",
        "--gpuperf-fail-on=speedup:10%",
    )
    common = (*common, "--gpuperf-baseline=base.json")
    pytester.makepyfile(test_it=SUITE.format(gpu=[1e-3, 1e-3, 1e-3, 1e-3]))
    made = pytester.runpytest_inprocess(*common, "--gpuperf-baseline-missing=create")
    assert made.ret == 0
    pytester.makepyfile(test_it=SUITE.format(gpu=[1e-3, 2e-3, 0.5e-3, None]))
    ran = pytester.runpytest_inprocess(*common, "--gpuperf-json=new.json")
    failed = ran.ret
    capsys.readouterr()
    code = main(["compare", "base.json", "new.json"])
    lines = capsys.readouterr().out.splitlines()
    report = read("new.json")
    reasons = {
        (each["nodeid"], found["reason"])
        for each in report["records"]
        for found in each["comparisons"]
        if found["reason"]
    }
    assert (failed, 1, 2) == (1, code, len(reasons))
    for nodeid, reason in reasons:
        assert any(line.startswith(f"{nodeid}: ") and line.endswith(reason) for line in lines)
    assert report["gate"]["notes"]
    assert [note for note in report["gate"]["notes"] if note not in lines] == []
    assert {line.split(": ")[1] for line in lines if line.startswith("FAILED")} == {
        "test_it.py::test_fast[1]",
        "test_it.py::test_fast[3]",
    }
    ran.assert_outcomes(failed=2, passed=2)


# baseline update


def update(call, *arguments):
    code, lines, err = call("baseline", "update", *arguments)
    assert err == ""
    return code, lines


def test_a_baseline_is_made_where_there_is_none(call):
    written("r.json", record(), record("test_a.py::test_2"), gate=None)
    told = ["base.json: 0 tests updated, 2 new, 0 kept as before"]
    assert (0, told) == update(call, "base.json", "r.json")
    assert read("base.json")["complete"] is True


def test_new_measurements_are_taken_and_the_others_stay_in_their_order(call):
    names = [f"test_a.py::test_{letter}" for letter in "abc"]
    written("base.json", *map(record, names))
    before = Path("base.json").read_text().splitlines()
    written("r.json", record("test_a.py::new", 3.0), record(names[1], 12.0))
    told = ["base.json: 1 test updated, 1 new, 2 kept as before"]
    assert (0, told) == update(call, "base.json", "r.json")
    found = {names[0]: 10.0, names[1]: 12.0, names[2]: 10.0, "test_a.py::new": 3.0}
    assert list(found.items()) == list(values("base.json").items())
    after = Path("base.json").read_text().splitlines()
    changed = [line for line in after if line not in before]
    assert sum('"nodeid":' in line for line in changed) <= 3, "a small change is a small diff"


def test_the_latest_report_wins_whatever_the_order_of_the_names(call):
    written("a.json", record(value=3.0), started="2026-01-01T12:00:00+00:00")
    written("b.json", record(value=5.0), started="2026-01-01T12:30:00+02:00")  # half past ten
    update(call, "base.json", "a.json", "b.json")
    update(call, "again.json", "b.json", "a.json")
    assert (3.0, 3.0) == (*values("base.json").values(), *values("again.json").values())


OLD = {"started": "2025-12-31T00:00:00+00:00"}
OTHER = "test_a.py::test_2"


def test_an_older_report_adds_what_is_missing_and_replaces_nothing(call):
    written("base.json", record(), skipped(OTHER), environment=replace(HERE, packages={"numpy": "2"}))
    written("old.json", record(value=3.0), record(OTHER, 4.0), record("test_a.py::test_3", 5.0), **OLD)
    told = [
        "base.json: 1 test updated, 1 new, 1 kept as before",
        "old.json was measured before the baseline: 1 test kept as it was",
    ]
    assert (0, told) == update(call, "base.json", "old.json")
    assert values("base.json") == {"test_a.py::test_1": 10.0, OTHER: 4.0, "test_a.py::test_3": 5.0}
    found = read("base.json")
    assert ("2026-01-01T00:00:00+00:00", {"numpy": "2"}) == (
        found["started"],
        found["environment"]["packages"],
    )


def test_an_older_report_replaces_nothing_beside_a_newer_one(call):
    written("base.json", record(), record(OTHER))
    written("old.json", record(value=3.0), record(OTHER, 4.0), record("test_a.py::test_3", 5.0), **OLD)
    written("new.json", record(OTHER, 12.0), started="2026-02-01T00:00:00+00:00")
    told = [
        "base.json: 1 test updated, 1 new, 1 kept as before",
        "old.json was measured before the baseline: 1 test kept as it was",
    ]
    assert (0, told) == update(call, "base.json", "old.json", "new.json")
    assert values("base.json") == {"test_a.py::test_1": 10.0, OTHER: 12.0, "test_a.py::test_3": 5.0}
    assert read("base.json")["started"] == "2026-02-01T00:00:00+00:00"


def test_a_report_that_is_only_older_changes_nothing_and_is_called_so(refused):
    written("base.json", record(), record(OTHER))
    written("old.json", record(value=3.0), record(OTHER, status="skipped", reason=NONE), **OLD)
    said = "old.json is older than the baseline, which has all that it measured; measure anew, or remove "
    assert refused("baseline", "update", "base.json", "old.json") == (
        f"{said}the baseline to make it of this report"
    )


def test_an_older_report_that_measured_nothing_is_no_matter_of_its_age(refused):
    written("base.json", record())
    written("old.json", skipped(), **OLD)
    said = "the reports measured nothing that a later run could be compared with"
    assert refused("baseline", "update", "base.json", "old.json") == said


def test_an_older_report_is_no_measure_of_what_to_take_out(refused):
    written("base.json", record(), record(OTHER))
    written("old.json", record(value=3.0), record("test_a.py::test_3"), **OLD)
    said = "old.json was measured before the baseline base.json; leave out --prune, or remove the baseline "
    assert refused("baseline", "update", "base.json", "old.json", "--prune") == f"{said}to make it anew"
    assert values("base.json") == {"test_a.py::test_1": 10.0, OTHER: 10.0}


def test_beside_a_newer_report_an_older_one_says_what_stays_and_replaces_nothing(call):
    written("base.json", record(), record(OTHER), record("test_a.py::gone"))
    written("old.json", record(value=3.0), record("test_a.py::test_3"), **OLD)
    written("new.json", record(OTHER, value=12.0), started="2026-02-01T00:00:00+00:00")
    code, lines = update(call, "base.json", "new.json", "old.json", "--prune")
    assert code == 0
    assert values("base.json") == {"test_a.py::test_1": 10.0, OTHER: 12.0, "test_a.py::test_3": 10.0}
    assert "old.json was measured before the baseline: 1 test kept as it was" in lines


def test_two_shards_make_a_baseline_anew_as_often_as_they_are_asked_to(call):
    written("one.json", record(), **OLD)
    written("two.json", record(OTHER))
    for _ in range(2):
        assert update(call, "base.json", "one.json", "two.json", "--prune")[0] == 0
        assert values("base.json") == {"test_a.py::test_1": 10.0, OTHER: 10.0}


def test_an_older_report_of_another_machine_is_not_told_to_take_out_what_is_newer(call):
    written("base.json", record())
    written("old.json", record(OTHER), environment=ELSEWHERE, **OLD)
    code, (line,) = update(call, "base.json", "old.json")
    assert (3, True) == (code, line.endswith("another; a folder holds a baseline of each machine"))


def test_a_baseline_that_measured_nothing_is_older_than_any_report(call):
    written("base.json", skipped(), environment=NO_GPU)
    written("old.json", record(), **OLD)
    assert (0, ["base.json: 1 test updated, 0 new, 0 kept as before"]) == update(
        call, "base.json", "old.json"
    )
    assert read("base.json")["started"] == OLD["started"]
    assert read("base.json")["environment"]["gpu"]


def test_the_same_report_twice_is_no_older_one(call):
    written("r.json", record(), record(OTHER))
    update(call, "base.json", "r.json")
    before = Path("base.json").read_bytes()
    assert (0, ["base.json: 2 tests updated, 0 new, 0 kept as before"]) == update(call, "base.json", "r.json")
    assert before == Path("base.json").read_bytes()


def test_a_folder_takes_no_report_that_is_older_than_its_nearest_baseline(call, refused):
    Path("folder").mkdir()
    written("folder/new.json", record())
    written("old.json", record(OTHER), **OLD)
    said = refused("baseline", "update", "folder", "old.json")
    assert said == (
        "old.json was measured before folder/new.json, and no run would choose the older of them; update "
        "that file, or take it out of the folder first"
    )
    assert said == refused("baseline", "update", "folder", "old.json", "--prune")
    assert update(call, "folder/new.json", "old.json")[0] == 0


def test_a_folder_takes_an_older_report_of_another_machine(call):
    Path("folder").mkdir()
    written("folder/new.json", record())
    written("old.json", record(), environment=ELSEWHERE, **OLD)
    assert update(call, "folder", "old.json")[0] == 0


WRONG = Parity(agreed=False, error=1.0, tolerance=1e-3, reason="they differ")
LESS = {
    "skipped": skipped(),
    "skipped with its CPU": skipped(cpu=measured(CPU, 1.0), scope="call"),
    "error": record(value=99.0, status="error", reason="lost"),
    "wrong answer": record(value=99.0, status="failed", reason="they differ", parity=WRONG),
    "one side": record(gpu=None, speedup=None, pairing=Pairing(side="cpu", library="numpy")),
    "no speedup": record(speedup=None),
}


@pytest.mark.parametrize("less", LESS.values(), ids=LESS)
@pytest.mark.parametrize("also", [(), ("first.json",)], ids=["in the baseline", "in another report"])
def test_nothing_less_replaces_what_was_measured(call, less, also):
    written("base.json", record("test_a.py::other") if also else record())
    written("first.json", record(), started="2025-01-01T00:00:00+00:00")
    written("r.json", less, record("test_a.py::test_2"))
    assert update(call, "base.json", *also, "r.json")[0] == 0
    assert values("base.json")["test_a.py::test_1"] == 10.0


def test_a_failed_demand_was_measured_all_the_same(call):
    written("base.json", record())
    written("r.json", record(value=2.0, status="failed", reason="too slow"))
    update(call, "base.json", "r.json")
    assert list(values("base.json").values()) == [2.0]


ALONE = skipped(cpu=measured(CPU, 1.0), scope="call", pairing=Pairing(side="cpu", library="numpy"))


@pytest.mark.parametrize(
    "less", [LESS["skipped"], LESS["error"], LESS["wrong answer"], LESS["no speedup"], ALONE]
)
def test_reports_that_measured_nothing_change_no_baseline(refused, less):
    written("base.json", record())
    written("r.json", less)
    said = "the reports measured nothing that a later run could be compared with"
    assert refused("baseline", "update", "base.json", "r.json") == said
    assert refused("baseline", "update", "new.json", "r.json") == said


def test_tests_that_are_gone_are_taken_out_where_that_is_asked_for(call):
    written("base.json", record(), record("test_a.py::gone"), record("test_a.py::too"))
    written("r.json", record(value=11.0))
    told = ["base.json: 1 test updated, 0 new, 0 kept as before", "2 tests taken out"]
    assert (0, told) == update(call, "base.json", "r.json", "--prune")
    assert values("base.json") == {"test_a.py::test_1": 11.0}


def test_what_was_measured_elsewhere_does_not_stand_beside_it(call):
    written("base.json", record(), record("test_a.py::test_2"))
    before = Path("base.json").read_bytes()
    written("r.json", record(), environment=ELSEWHERE)
    code, (line,) = update(call, "base.json", "r.json")
    assert code == 3
    assert line.startswith(
        "base.json was left as it is, for the runs differ: CPU: a processor, another; --prune"
    )
    assert before == Path("base.json").read_bytes()
    assert update(call, "base.json", "r.json", "--prune")[0] == 0


def test_a_baseline_of_which_all_is_measured_anew_may_be_of_another_machine(call):
    written("base.json", record(), skipped("test_a.py::test_2"))
    written("r.json", record(), environment=ELSEWHERE)
    assert update(call, "base.json", "r.json")[0] == 0
    assert read("base.json")["environment"]["cpu"]["name"] == "another"


def test_reports_of_several_machines_make_no_baseline(call):
    written("a.json", record())
    written("b.json", record("test_a.py::test_2"), environment=ELSEWHERE)
    for options in ([], ["--prune"]):
        code, (line,) = update(call, "base.json", "a.json", "b.json", *options)
        assert code == 3
        assert line.endswith("for the reports differ: CPU: a processor, another; make a baseline of each")
    assert not Path("base.json").exists()


def test_a_folder_gets_a_file_of_its_own(call, refused):
    Path("folder").mkdir()
    written("folder/old.json", record(), record("test_a.py::test_2"), started="2025-01-01T00:00:00+00:00")
    written("folder/else.json", record(), environment=ELSEWHERE, started="2025-06-01T00:00:00+00:00")
    before = {path: path.read_bytes() for path in Path("folder").iterdir()}
    written("r.json", record(value=12.0), started="2026-01-01T01:00:00+01:00")
    told = ["folder/2026-01-01T000000.000Z.json: 1 test updated, 0 new, 1 kept as before"]
    assert (0, told) == update(call, "folder", "r.json")
    assert values("folder/2026-01-01T000000.000Z.json") == {
        "test_a.py::test_1": 12.0,
        "test_a.py::test_2": 10.0,
    }
    assert before == {path: path.read_bytes() for path in before}
    said = refused("baseline", "update", "folder", "r.json")
    assert said.startswith("folder/2026-01-01T000000.000Z.json is there already")


def test_a_folder_gets_the_first_baseline_of_a_machine_beside_those_of_others(call):
    Path("folder").mkdir()
    written("folder/else.json", record(), record("test_a.py::test_2"), environment=ELSEWHERE)
    written("r.json", record(value=12.0), started="2026-02-01T00:00:00+00:00")
    told = ["folder/2026-02-01T000000.000Z.json: 0 tests updated, 1 new, 0 kept as before"]
    assert (0, told) == update(call, "folder", "r.json")


def test_a_folder_that_is_not_there_is_made_for_its_first_baseline(call):
    written("r.json", record())
    told = ["folder/2026-01-01T000000.000Z.json: 0 tests updated, 1 new, 0 kept as before"]
    assert (0, told) == update(call, "folder/", "r.json")
    assert values("folder/2026-01-01T000000.000Z.json") == {"test_a.py::test_1": 10.0}


def test_no_folder_is_made_for_a_baseline_that_cannot_be(refused):
    written("r.json", skipped())
    assert "measured nothing" in refused("baseline", "update", "folder", "r.json")
    written("r.json", record(), started="yesterday")
    assert "which is no time with an offset" in refused("baseline", "update", "folder", "r.json")
    written("r.json", record())
    assert "nowhere/folder: No such file" in refused("baseline", "update", "nowhere/folder", "r.json")
    assert ["r.json"] == [path.name for path in Path().iterdir()]


def test_a_stray_file_in_a_folder_can_be_moved_out_of_it(refused):
    Path("folder").mkdir()
    written("folder/base.json", record())
    Path("folder/package.json").write_text("{}")
    written("r.json", record())
    for arguments in (["compare", "folder", "r.json"], ["baseline", "update", "folder", "r.json"]):
        said = refused(*arguments)
        assert said.startswith("folder/package.json: this is no report; ")
        assert said.endswith("; or move the file out of the folder")


@pytest.mark.parametrize("started", ["../outside", "/outside", "yesterday", "2026-01-01", "\0"])
def test_a_report_does_not_say_where_it_is_written(refused, started):
    Path("folder").mkdir()
    written("r.json", record(), started=started)
    assert "which is no time with an offset" in refused("baseline", "update", "folder", "r.json")


@pytest.mark.parametrize("content", ["", "my notes", "{}"])
def test_what_is_no_baseline_is_not_overwritten(refused, content):
    Path("base.json").write_text(content)
    written("r.json", record())
    assert refused("baseline", "update", "base.json", "r.json").startswith("base.json")


def test_a_run_that_ended_early_adds_what_it_measured_and_makes_no_baseline(call, refused):
    written("base.json", record(), record("test_a.py::test_2"))
    written("r.json", record(value=12.0), complete=False)
    told = [
        "base.json: 1 test updated, 0 new, 1 kept as before",
        "r.json is incomplete: its run ended early",
    ]
    assert (0, told) == update(call, "base.json", "r.json")
    said = (
        "r.json is incomplete, and would be taken for whole: its run ended early; run it again to its end, or"
    )
    assert refused("baseline", "update", "new.json", "r.json") == f"{said} update a baseline that is there"
    assert refused("baseline", "update", "base.json", "r.json", "--prune") == f"{said} leave out --prune"


def test_a_baseline_holds_no_comparison_and_no_gate(call):
    written("base.json", record())
    written("old.json", record(value=5.0))
    assert main(["compare", "base.json", "old.json"]) == 1
    update(call, "base.json", "old.json")
    assert read("base.json")["gate"] is None
    assert [each["comparisons"] for each in read("base.json")["records"]] == [[]]


def test_two_runs_that_write_one_baseline_leave_a_whole_one(folder):
    written("a.json", record(value=3.0))
    written("b.json", record(value=5.0))
    program = "import sys; from pytest_gpuperf.cli import main; sys.exit(main())"
    runs = [
        subprocess.Popen([sys.executable, "-c", program, "baseline", "update", "base.json", name])
        for name in ("a.json", "b.json")
    ]
    assert [each.wait(60) for each in runs] == [0, 0]
    assert values("base.json").popitem()[1] in (3.0, 5.0)
    assert {path.name for path in folder.iterdir()} == {"a.json", "b.json", "base.json"}


# history


def remembered(*speedups, folder="speedups") -> str:
    for number, value in enumerate(speedups):
        began = f"2026-01-{number + 1:02}T00:00:00+00:00"
        commit = Commit(id=f"{number:040x}", branch=None, time=None, changed=False)
        run = run_of(record(value=value), record("test_b.py::other"), started=began, commit=commit)
        history.write(Path(folder), history.entry(run))
    return folder


def test_history_tells_each_test_and_where_it_changed(call):
    code, lines, _ = call("history", remembered(*[10.0] * 8, *[5.0] * 8))
    assert code == 0
    assert lines[0] == "16 runs from 2026-01-01 to 2026-01-16, 2 tests"
    assert "  from 10.0x to 5.00x (-50 %) at 0000000 of 2026-01-09" in lines
    assert "  ... 6 earlier" in lines


def test_history_shows_what_is_asked_for(call):
    lines = call("history", remembered(*[10.0] * 5), "--only=other", "--last=2")[1]
    assert lines[0].endswith("1 test")
    assert "  ... 3 earlier" in lines
    assert not any("test_1" in line for line in lines)


def test_history_for_programs(call):
    found = json.loads("\n".join(call("history", remembered(10.0, 11.0), "--json", "--only=test_1")[1]))
    assert (2, ["test_a.py::test_1"]) == (found["runs"], [each["nodeid"] for each in found["series"]])


def test_an_empty_history_is_no_error_and_one_that_is_not_there_is(call, refused):
    Path("empty").mkdir()
    assert (0, ["no runs yet: run pytest with --gpuperf-history=DIR"], "") == call("history", "empty")
    assert refused("history", "nowhere").startswith("nowhere is no folder")


def test_a_file_that_is_no_entry_is_named_and_left_out(call):
    Path(remembered(10.0), "\x1b[1mwrong.json").write_text("no entry")
    code, lines, _ = call("history", "speedups")
    assert code == 0
    assert lines[-1].startswith(r"  \x1b[1mwrong.json: it is not JSON")


@pytest.mark.parametrize("last", ["0", "-1", "x", "1.5", ""])
def test_a_number_of_runs_is_one(capsys, last):
    assert "is no number of runs from 1 up" in usage(capsys, "history", "speedups", f"--last={last}")


# What a command costs


def test_the_commands_load_neither_pytest_nor_numpy():
    written("r.json", record())
    program = (
        "import sys; from pytest_gpuperf.cli import main; main(sys.argv[1:]); "
        "assert not {'pytest', 'numpy', 'jsonschema'} & {*sys.modules}"
    )
    for arguments in (
        ["compare", "r.json", "r.json"],
        ["show", "r.json"],
        ["baseline", "update", "b", "r.json"],
    ):
        ran = subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False
        )
        assert (0, "") == (ran.returncode, ran.stderr)


def test_a_command_leaves_the_garbage_collector_as_it_was(call):
    import gc

    written("r.json", record())
    assert gc.isenabled()
    call("show", "r.json")
    call("show", "nowhere.json")
    assert gc.isenabled()
