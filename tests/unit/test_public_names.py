"""The public names: each can be imported, is in the reference, and costs a start of pytest nothing."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_gpuperf
from pytest_gpuperf import testing

REFERENCE = Path(__file__, "../../../docs/reference/python-api.md").resolve()
PUBLIC = {
    *(f"pytest_gpuperf.{name}" for name in pytest_gpuperf.__all__),
    *(f"pytest_gpuperf.testing.{name}" for name in testing.__all__),
}


@pytest.mark.parametrize("name", pytest_gpuperf.__all__)
def test_a_public_name_can_be_imported_and_completed(name):
    assert getattr(pytest_gpuperf, name) is not None
    assert name in dir(pytest_gpuperf)


def test_the_reference_lists_the_public_names_and_no_others():
    listed = set(re.findall(r"auto(?:class|exception|function):: ([\w.]+)", REFERENCE.read_text()))
    hooks = {name for name in listed if name.startswith("pytest_gpuperf.hookspecs.")}
    types = {"pytest_gpuperf.Record", "pytest_gpuperf.Run"}  # the page of the report has their fields
    assert listed - hooks == PUBLIC - types - {"pytest_gpuperf.__version__"}


def test_a_name_that_is_not_public_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'pytest_gpuperf' has no attribute 'GpuSession'"):
        _ = pytest_gpuperf.GpuSession


def test_importing_the_package_imports_none_of_its_rooms():
    code = "import sys; import pytest_gpuperf; print([each for each in sys.modules if 'pytest' in each])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['pytest_gpuperf']"
