"""A suite that does not use the plugin is not touched by it."""

import re
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.all_plugins, pytest.mark.libraries]

GPU_LIBRARIES = {"cupy", "dpnp", "torch", "jax", "keras", "mlx"}
HEAVY = {*GPU_LIBRARIES, "numpy", "filelock", "jsonschema", "xdist", "threadpoolctl"}


def modules_after(pytester, source, *options):
    """Return the modules that a whole pytest process had imported at its end."""
    pytester.makepyfile(test_it=source)
    pytester.makeconftest(
        """
        import sys

        def pytest_unconfigure():
            print("IMPORTED", *sorted(sys.modules))
        """
    )
    command = [sys.executable, "-m", "pytest", "-s", "-p", "no:randomly", *options]
    ran = subprocess.run(command, cwd=pytester.path, capture_output=True, text=True, check=False)
    (line,) = [line for line in ran.stdout.splitlines() if line.startswith("IMPORTED")]
    return set(line.split())


@pytest.mark.parametrize("typed", [["-p", "no:xdist"], ["-n1"]], ids=["alone", "with workers"])
def test_a_plain_suite_imports_nothing_of_ours_but_the_door(pytester, typed):
    source = "import pytest\n@pytest.mark.parametrize('n', [1, 2])\ndef test_it(n, tmp_path): pass\n"
    imported = modules_after(pytester, source, "-p", "no:cacheprovider", *typed)
    ours = {name.partition(".")[2] for name in imported if name.startswith("pytest_gpuperf")}
    of_workers = {"integrations", "integrations.xdist", "model", "model.worker_keys"}
    # What reads and checks the options is not here: without bytecode every start would compile it.
    tables = {"option_table", "devices", "devices.registry", "model", "model.metrics"}
    door = {"", "plugin", "hookspecs"} | tables
    assert (door | of_workers if "-n1" in typed else door) == ours
    assert not imported & {*GPU_LIBRARIES, "numpy", "jsonschema"}


def test_a_cpu_only_test_imports_no_gpu_library(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    imported = modules_after(pytester, "def test_it(cpu): pass", "-p", "gpuperf")
    assert "numpy" in imported
    assert not imported & {*GPU_LIBRARIES, "jsonschema"}


@pytest.mark.parametrize("option", ["--help", "--markers", "--fixtures"])
def test_pytests_own_listings_show_ours(run, option):
    shown = {
        "--help": "*--gpuperf-require-gpu*",
        "--markers": "@pytest.mark.speedup(min=None*",
        "--fixtures": "xp *-- *",
    }
    run("", option, gpu=None).stdout.fnmatch_lines([shown[option]])


UNMARKED = """
    import warnings
    import pytest

    @pytest.mark.parametrize("xp", ["numpy", "cupy"])
    def test_it(xp):
        warnings.warn("its own")

    @pytest.mark.parametrize("device", [7, "cpu"])
    def test_fails(device):
        assert device == "cpu"

    @pytest.mark.xfail
    def test_xfails():
        assert 0

    @pytest.mark.skip
    def test_skips():
        pass

    class TestMore:
        def test_method(self, tmp_path):
            return 3
"""


def test_a_suite_without_a_marker_is_the_same_with_and_without_the_plugin(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(test_it=UNMARKED)
    for options in (["-v", "-rA"], ["--collect-only", "-q"]):
        told = []
        for ours in (["-p", "no:gpuperf"], ["-p", "gpuperf"], ["-p", "gpuperf", "--gpuperf-off"]):
            ran = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-Wdefault", *options, *ours)
            lines = [re.sub(r" in \d+\.\d+s\b", "", line).strip("= ") for line in ran.outlines]
            left = sorted(path.name for path in pytester.path.iterdir() if path.name != "__pycache__")
            told.append([ran.ret, ran.errlines, left, *(line for line in lines if "plugins: " not in line)])
        assert ("-v" in options) == told[0][0]
        assert told[0] == told[1] == told[2]


def test_a_suite_without_a_marker_imports_nothing_heavy(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others import what they like
    pytester.makepyfile(test_it=UNMARKED)
    program = """
import sys, pytest
for option in ("-rA", "--collect-only", "--gpuperf-off"):
    print("RAN", pytest.main(["-p", "no:cacheprovider", "-p", "gpuperf", option]))
    print("IMPORTED", *sorted(sys.modules))
"""
    ran = pytester.run(sys.executable, "-c", program)
    assert ["RAN 1", "RAN 0", "RAN 1"] == [line for line in ran.outlines if line.startswith("RAN")]
    imported = [{*line.split()} for line in ran.outlines if line.startswith("IMPORTED")]
    assert 3 == len(imported)
    for modules in imported:
        assert "pytest_gpuperf.plugin" in modules
        assert not modules & HEAVY


MARKED = """
    import pytest

    def test_plain():
        pass

    @pytest.mark.speedup
    def test_it(device):
        device.launch()
"""


@pytest.mark.parametrize(
    ("options", "is_there"),
    [([], True), (["--collect-only"], False), (["--gpuperf-off"], False), (["-k", "plain"], False)],
    ids=["measured", "collected", "off", "deselected"],
)
def test_what_measuring_needs_is_there_before_the_first_test_only_if_one_is_measured(
    pytester, monkeypatch, options, is_there
):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for library in ("filelock", "threadpoolctl"):
        monkeypatch.delitem(sys.modules, library, raising=False)
    pytester.makepyfile(test_it=MARKED)
    pytester.makeconftest(
        """
        import sys

        def pytest_runtest_logstart():
            print("BEFORE", {"filelock" in sys.modules, "threadpoolctl" in sys.modules})

        def pytest_unconfigure():
            print("AFTER", {"filelock" in sys.modules})
        """
    )
    ran = pytester.runpytest_inprocess("-s", "-p", "gpuperf", "--gpuperf-gpu=simulated", *options)
    told = re.findall("(?:BEFORE|AFTER) .*", ran.stdout.str())  # pytest's own words stand before them
    ran_tests = "--collect-only" not in options
    assert {f"AFTER {{{is_there}}}", *([f"BEFORE {{{is_there}}}"] if ran_tests else [])} == set(told)
