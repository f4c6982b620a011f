"""Report formats and the hook for records, as a suite's conftest.py has them."""

import pytest

TESTS = """
    import pytest

    @pytest.mark.speedup(min=3)
    def test_fast(device):
        return lambda: device.launch()

    @pytest.mark.speedup(min=3)
    def test_other(device):
        return lambda: device.launch()
"""
FORMAT = """
    import pytest

    class Names:
        name, suffix = "names", ".txt"

        def write(self, run):
            {body}

        def begins_as(self, head):
            return head.startswith(b"names")

    @pytest.hookimpl(optionalhook=True)
    def pytest_gpuperf_reports():
        return [Names()]
"""
GOOD = FORMAT.format(body='return "\\n".join(["names", *(each.nodeid for each in run.records)])')
ASKED = ("--gpuperf-json=r.json", "--gpuperf-export=csv:r.csv", "--gpuperf-export=names:r.txt")


@pytest.fixture
def with_conftest(run, pytester):
    def call(conftest, *options):
        pytester.makeconftest(conftest)
        return run(TESTS, *options)

    return call


def test_a_format_of_the_suite_is_written_and_only_its_own_file_is_replaced(with_conftest, pytester):
    for _ in range(2):
        with_conftest(GOOD, *ASKED).stdout.fnmatch_lines(["csv file: *r.csv", "names file: *r.txt"])
        expected = ["names", "test_it.py::test_fast", "test_it.py::test_other"]
        assert expected == (pytester.path / "r.txt").read_text().splitlines()
    (pytester.path / "r.txt").write_text("mine")
    result = with_conftest(GOOD, *ASKED)
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines(
        ["ERROR: --gpuperf-export: *r.txt exists and was not written by pytest-gpuperf as names; *"]
    )
    (pytester.path / "r.txt").write_text("names")
    result = with_conftest(GOOD.replace("def begins_as", "def begins"), *ASKED)
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines(["*as names, as far as is known: the format has no `begins_as`; *"])


@pytest.mark.usefixtures("forked_workers")
def test_xdist_writes_a_format_of_the_suite_once(with_conftest, pytester):
    pytest.importorskip("xdist", reason="the extra `test` has pytest-xdist")
    single = GOOD.replace("[Names()]", "Names()")  # which needs no list
    with_conftest(single, *ASKED, "-n", "1").stdout.fnmatch_lines(["names file: *r.txt"])
    assert 3 == len((pytester.path / "r.txt").read_text().splitlines())


RAISED = {
    "return run.nothing": "AttributeError: *nothing",
    "pytest.fail('no words')": "Failed: no words",
    "pytest.skip('no words')": "Skipped: no words",
    "raise SystemExit(3)": "SystemExit: 3",
    "return None": "",
}


def test_a_format_that_raises_is_named_and_costs_no_other_file(with_conftest, pytester):
    formats = "".join(
        f"""
class Names{index}:
    name, suffix = "names{index}", ".txt"

    def write(self, run):
        {body}
"""
        for index, body in enumerate(RAISED)
    )
    hook = f"[{', '.join(f'Names{index}()' for index in range(len(RAISED)))}]"
    listed = f"@pytest.hookimpl(optionalhook=True)\ndef pytest_gpuperf_reports():\n    return {hook}\n"
    later = ("--gpuperf-html=r.html", "--gpuperf-baseline=base.json", "--gpuperf-baseline-missing=create")
    asked = (f"--gpuperf-export=names{index}:{index}.txt" for index in range(len(RAISED)))
    result = with_conftest(f"import pytest\n{formats}\n{listed}", *ASKED[:2], *asked, *later)
    assert pytest.ExitCode.TESTS_FAILED == result.ret
    for index, raised in enumerate(RAISED.values()):
        how = f"raised {raised}*conftest.py, line *" if raised else "returned NoneType, and no str"
        named = f"the names{index} file was not written: conftest.Names{index} {how}"
        result.stdout.fnmatch_lines([named])
    written = {path.name for path in pytester.path.iterdir()}
    assert {"r.json", "r.csv", "r.html", "base.json"} <= written
    assert not {f"{index}.txt" for index in range(len(RAISED))} & written


def test_a_format_may_end_the_whole_run(with_conftest):
    result = with_conftest(FORMAT.format(body="pytest.exit('enough')"), *ASKED)
    result.stderr.fnmatch_lines(["Exit: enough"])
    result.stdout.no_fnmatch_line("*was not written*")


NAME, LISTED, BEGINS = 'name, suffix = "names"', "return [Names()]", 'return head.startswith(b"names")'
NO_FORMAT = "* is no report format: it must be an object with a name (a str without a colon), a suffix and *"
HOOK_RAISED = "pytest_gpuperf_reports: the hook raised *conftest.py, line 14"
BEGINS_RAISED = "--gpuperf-export: begins_as of conftest.Names raised *, line 10"


@pytest.mark.parametrize(
    ("line", "changed", "message"),
    [
        (
            NAME,
            'name, suffix = "csv"',
            "*: two report formats are called 'csv', *conftest.Names: *",
        ),
        (
            *(NAME, 'name, suffix = "other"'),
            "*: 'names' is not an export format; use one of csv (.csv), *, other (.txt); a suite's *",
        ),
        (
            LISTED,
            "return [Names(), Names()]",
            "*: two report formats are called 'names', conftest.Names and *",
        ),
        (LISTED, "return [Names]", NO_FORMAT),
        (NAME, 'other, suffix = "names"', NO_FORMAT),
        (NAME, 'name, suffix = "a:b"', NO_FORMAT),
        (NAME, 'name, suffix = ""', NO_FORMAT),
        (NAME, "name, suffix = 7", NO_FORMAT),
        (LISTED, "pytest.fail('it')", HOOK_RAISED),
        (BEGINS, "raise SystemExit(3)", BEGINS_RAISED),
    ],
)
def test_a_format_that_cannot_be_or_raises_ends_the_run_before_the_first_test(
    with_conftest, pytester, line, changed, message
):
    (pytester.path / "r.txt").write_text("names")
    result = with_conftest(GOOD.replace(line, changed), *ASKED)
    assert pytest.ExitCode.USAGE_ERROR == result.ret
    result.stderr.fnmatch_lines([f"ERROR: {message}"])
    assert not (pytester.path / "r.json").exists()


SEEN = """
    import pytest

    @pytest.hookimpl(optionalhook=True)
    def pytest_gpuperf_record(item, record):
        with open("seen.txt", "a") as file:
            print(item.name, record.nodeid, record.status, record.speedup is not None, file=file)
        {body}
"""


@pytest.mark.usefixtures("forked_workers")
def test_the_hook_gets_each_record_once_where_workers_measure(with_conftest, pytester):
    pytest.importorskip("xdist", reason="the extra `test` has pytest-xdist")
    with_conftest(SEEN.format(body="pass"), "-n", "1").assert_outcomes(passed=2)
    assert (pytester.path / "seen.txt").read_text().splitlines() == [
        f"{name} test_it.py::{name} passed True" for name in ("test_fast", "test_other")
    ]


def test_the_hook_gets_no_record_of_a_cpu_variant_that_runs_for_its_gpu_variant(suite, pytester):
    source = "@pytest.mark.speedup(min=3)\ndef test_it(xp):\n    xp.ones(3)\n"
    suite(source, "-k", "cupy", conftest=SEEN.format(body="pass"))
    (line,) = (pytester.path / "seen.txt").read_text().splitlines()
    assert line.startswith("test_it[cupy] test_it.py::test_it[cupy] passed")


def test_what_the_hook_raises_is_an_error_of_the_test_and_costs_no_record(suite):
    raised = ("raise KeyError('it')", "pytest.fail('it')", "pytest.skip('it')", "pass")
    tests = (f"@pytest.mark.speedup\ndef test_{index}(device): return device.launch\n" for index in range(4))
    body = "".join(f"if item.name == 'test_{index}': {each}\n        " for index, each in enumerate(raised))
    found = suite("".join(tests), conftest=SEEN.replace("import pytest\n", "").format(body=body.rstrip()))
    found.ended(passed=4, errors=3)
    for index in range(3):
        found.says(
            f"ERROR at teardown of test_{index}",
            "pytest_gpuperf_record failed for this test:",
            "conftest.py",
        )
    assert ["recorded"] * 4 == [*found.statuses.values()]
