"""README and the pages of docs/: their snippets run, and what they list is all that there is."""

import ast
import json
import re
import shlex
import sys
from importlib import import_module
from pathlib import Path

import pytest
from cards import CARD
from cases import for_each
from plugins import needed
from published import SCHEMA

import pytest_gpuperf
from pytest_gpuperf.cli import main

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {
    path.relative_to(DOCS).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(DOCS.rglob("*.md"))
}
TEXTS = {"README": README, **PAGES}
PYTHON = {
    name: [source.replace("(512, 512)", "(64, 64)") for source in found]  # the times that count are simulated
    for name, text in TEXTS.items()
    if (found := re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE))
}
INI = {
    name: found for name, text in PAGES.items() if (found := re.findall(r"```ini\n(.*?)```", text, re.DOTALL))
}
MATMUL = PYTHON["getting-started"][0]
CODES = PAGES["reference/codes"]
ANY = "..."  # there, for what differs from one message to the next
_SHELL = re.compile(r"^ *```sh\n(.*?)^ *```", flags=re.DOTALL | re.MULTILINE)
SHELL = {
    name: [
        line.strip()
        for block in found
        for line in block.replace("\\\n", "").splitlines()
        if "pip install" not in line  # .ci/run runs what needs a network
    ]
    for name, text in TEXTS.items()
    if (found := _SHELL.findall(text)) and not name.startswith("development")
}


MYLIB = """
from pytest_gpuperf.devices.simulated import SimulatedArray as ndarray, SimulatedBackend

_gpu = SimulatedBackend().gpu("")
__version__ = "1.0"
from_numpy, to_numpy, synchronize = _gpu.asarray, _gpu.asnumpy, _gpu.synchronize
free_unused_memory = _gpu.release

def launched_kernels():
    return _gpu.launches

def __getattr__(name):
    return getattr(_gpu.xp, name)
"""  # a library for arrays on a device: the page of own devices supports it


def write_snippets(folder, page):
    """Write each snippet to the file that its page means it for."""
    (folder / "mylib.py").write_text(MYLIB, encoding="utf-8")
    for number, source in enumerate(PYTHON[page]):
        name = "conftest.py" if "def pytest_gpuperf_" in source else f"test_{number}.py"
        name = "mybackend.py" if "class MyBackend(" in source else name
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write(source)


@pytest.mark.libraries
@pytest.mark.parametrize("page", PYTHON)
def test_the_snippets_of_a_page_run(pytester, monkeypatch, page):
    write_snippets(pytester.path, page)
    for library in ("torch", "jax") if page in ("guides/libraries", "guides/training") else ():
        monkeypatch.setitem(sys.modules, library, None)  # tests/backends runs what needs them
    others = []
    if page == "guides/from-pytest-benchmark":
        needed("pytest_benchmark", "pytest-benchmark")
        others = ["-p", "pytest_benchmark.plugin"]
    result = pytester.runpytest_inprocess("-p", "no:randomly", "--gpuperf-gpu=simulated", *others)
    tests = any("def test_" in source or "(DeviceConformance)" in source for source in PYTHON[page])
    assert result.ret == (pytest.ExitCode.OK if tests else pytest.ExitCode.NO_TESTS_COLLECTED)
    assert set(result.parseoutcomes()) <= {"passed", "skipped"}


def test_the_backend_of_its_page_measures_a_test(pytester):
    write_snippets(pytester.path, "guides/own-backend")
    pytester.makepyfile(
        test_it="import pytest\n@pytest.mark.speedup\ndef test_it(device):\n"
        "    a = device.asarray([1.0, 2.0])\n    return lambda: a + a"
    )
    options = ("--gpuperf-gpu=mydevice", "--gpuperf-json=report.json", "--gpuperf-max-time=3")
    pytester.runpytest_inprocess("test_it.py", *options).assert_outcomes(passed=1)
    (record,) = json.loads((pytester.path / "report.json").read_text())["records"]
    assert ("mydevice", "recorded") == (record["gpu"]["device"]["backend"], record["status"])
    assert record["speedup"] is not None
    assert record["check"]["agreed"] is True


@pytest.mark.parametrize("page", INI)
def test_the_ini_files_of_a_page_are_read(pytester, page):
    for source in INI[page]:
        pytester.makeini(source)
        pytester.makepyfile("def test_it(device): pass")
        result = pytester.runpytest_inprocess("--gpuperf-gpu=simulated", "-p", "no:randomly")
        assert result.ret == pytest.ExitCode.OK


@pytest.mark.libraries
@pytest.mark.parametrize("page", SHELL)
def test_the_commands_of_a_page_run_one_after_the_other(pytester, monkeypatch, page):
    monkeypatch.chdir(pytester.path)
    (pytester.path / "test_speed.py").write_text(f"{MATMUL}\n\ndef test_other(): pass\n", encoding="utf-8")
    if page == "guides/own-report":
        write_snippets(pytester.path, page)
    (pytester.path / "examples").mkdir()
    (pytester.path / "examples" / "test_matmul.py").write_text(MATMUL, encoding="utf-8")
    gpu = "simulated"
    if any("--gpuperf-require-gpu" in line for line in SHELL[page]):
        pytester.makeconftest(CARD)
        gpu = "card"
    for line in SHELL[page]:
        command, *arguments = shlex.split(line)
        if command == "pytest":
            result = pytester.runpytest_inprocess(f"--gpuperf-gpu={gpu}", "-p", "no:randomly", *arguments)
            assert result.ret == pytest.ExitCode.OK, line
        else:
            assert command == "gpuperf", line
            assert main(arguments) == 0, line


def values_of(kind, field):
    """Return the values that the schema of a report allows in a field."""
    known = SCHEMA["$defs"][kind]["properties"][field]
    return known.get("enum") or known["anyOf"][0]["enum"]


@for_each(
    "of",
    [
        ("Diagnosis", "code"),
        ("Record", "reason_code"),
        ("Note", "code"),
        ("Comparison", "outcome"),
        ("Absent", "cause"),
        ("GateFailure", "code"),
        ("GateNote", "code"),
    ],
)
def test_the_page_of_codes_has_every_code(of):
    assert [] == [code for code in values_of(*of) if f"`{code}`" not in CODES]


def texts():
    """Yield every string of the package but its docstrings, with `ANY` for what is filled in."""
    for path in Path(pytest_gpuperf.__file__).parent.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        documentation = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.JoinedStr):
                yield "".join(part.value if isinstance(part, ast.Constant) else ANY for part in node.values)
            elif isinstance(node, ast.Constant) and id(node) not in documentation:
                yield re.sub(r"\{[^{}]*\}", ANY, str(node.value))


def test_each_code_and_message_that_a_term_quotes_is_one_of_the_package_or_of_cuda():
    messages = "\n".join(" ".join(text.split()) for text in texts())
    terms = re.findall(r"^(`.+)\n: ", CODES, flags=re.MULTILINE)
    patterns = {
        quote: ".*".join(map(re.escape, quote.removeprefix(ANY).strip().split(ANY)))
        for term in terms
        for quote in re.findall(r"`([^`]+)`", term)
    }
    assert len(patterns) > 60
    unknown = [quote for quote, pattern in patterns.items() if not re.search(pattern, messages)]
    assert ["no CUDA GPUs are available"] == unknown


def not_in_a_table(page, names):
    return [name for name in names if not re.search(rf"\| .*`{name}(=\w+)?`.* \|", PAGES[page])]


def test_a_table_has_every_status_and_metric():
    assert [] == not_in_a_table("getting-started", values_of("Record", "status"))
    assert [] == not_in_a_table("guides/regression-check", values_of("Comparison", "metric"))


def test_the_page_of_markers_has_their_signatures_and_every_argument(run):
    shown = run("", "--markers", gpu=None).outlines
    calls = [line.partition(": ")[0] for line in shown if line.endswith("(pytest-gpuperf)")]
    assert 3 == len(calls)
    on_one_line = " ".join(PAGES["reference/marker"].split())
    assert [] == [call for call in calls if call not in on_one_line]
    names = re.findall(r"(?<=[( ])\w+(?=[=,)])", " ".join(calls))
    assert len(names) > 20
    assert [] == not_in_a_table("reference/marker", names)


@pytest.mark.xfail(sys.version_info >= (3, 12), reason="argparse words its help anew since", strict=False)
def test_the_generated_parts_are_those_of_the_code(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    monkeypatch.setenv("COLUMNS", "100")
    wrong = [
        path.name for path, text in import_module("generated").pages().items() if path.read_text() != text
    ]
    assert not wrong, f"run python docs/generated.py: {wrong}"


def test_the_page_of_commands_has_every_command_and_its_exit_codes(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^ {4}(\w+)", capsys.readouterr().out, flags=re.MULTILINE)
    assert {"devices", "show"} <= set(commands)
    headings = re.findall(r"^## gpuperf (\w+)", PAGES["reference/command-line"], flags=re.MULTILINE)
    assert sorted(commands) == sorted(headings)
    rows = re.findall(r"^\| (`.*?) \|", PAGES["reference/command-line"], flags=re.MULTILINE)
    assert sorted(commands) == sorted(re.findall(r"`(\w+)", ", ".join(rows)))


def test_every_page_is_in_the_contents():
    listed = re.findall(r"^(?:[a-z]+/)?[a-z-]+$", PAGES["index"], flags=re.MULTILINE)
    assert sorted(PAGES) == sorted([*listed, "index"])


def test_the_readme_is_short_enough_to_be_read():
    text = re.sub(r"```.*?```|\]\([^)]*\)|<!--.*?-->", " ", README, flags=re.DOTALL)
    assert len(re.findall(r"\w[\w'.-]*", text)) <= 620
    assert [] == [line for block in _SHELL.findall(README) for line in block.splitlines() if len(line) > 100]


def test_each_picture_of_the_readme_is_an_image_of_the_repository():
    pictures = re.findall(r"<picture>(.*?)</picture>", README, flags=re.DOTALL)
    images = [re.findall(r'(?:<img [^>]*src|srcset)="([^"]+)"', picture) for picture in pictures]
    assert [2] == [len(found) for found in images]
    assert all((ROOT / name).is_file() for found in images for name in found)


def test_the_command_of_the_readme_prints_its_table(pytester, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    (source,) = re.findall(r"^```python\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)
    (table,) = re.findall(r"^```text\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)
    pytester.makepyfile(test_speed=source)
    (command,) = (line for line in SHELL["README"] if "test_speed.py" in line)
    assert command.startswith("pytest ")
    result = pytester.runpytest_inprocess(*shlex.split(command)[1:], "-p", "no:randomly")
    assert table in f"{result.stdout}\n"


def test_the_command_for_the_projects_own_tests_ends_in_their_counts_and_not_in_reasons_of_skips(pytester):
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("name", ["torch", "jax"])
        def test_of_a_library(name):
            pytest.skip(f"{name} is not installed")
        """
    )
    (addopts,) = re.findall(r"^addopts = (\[.*\])$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    *before, last = pytester.runpytest_inprocess(*json.loads(addopts)).outlines
    assert "2 skipped" in last
    assert [] == [line for line in before if "is not installed" in line]


@pytest.mark.parametrize("name", ["README", "examples/README", "examples/ci/README", "CONTRIBUTING"])
def test_the_links_of_a_file_lead_to_files(name):
    path = ROOT / f"{name}.md"
    links = re.findall(r"\]\(([^)#]+)", path.read_text(encoding="utf-8"))
    assert [] == [link for link in links if "://" not in link and not (path.parent / link).exists()]


def test_every_picture_that_is_shown_is_there_and_said_to_be_of_synthetic_times():
    shown = set()
    for path in (ROOT / "README.md", *DOCS.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        found = re.findall(r"!\[[^\]]+\]\(([^)]+)\)|<(?:img|source)[^>]* src(?:set)?=\"([^\"]+)\"", text)
        links = [first or second for first, second in found if "://" not in first]
        assert not links or "synthetic" in text, path
        shown |= {(path.parent / link).resolve() for link in links}
    pictures = DOCS / "pictures"
    assert {*pictures.glob("*.png"), *pictures.glob("*.svg")} == shown != set()
