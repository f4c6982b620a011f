"""dpnp as it is found on machines where it does not work."""

import sys

import pytest

from pytest_gpuperf.devices.sycl import SyclBackend
from pytest_gpuperf.model.errors import Unavailable


@pytest.mark.parametrize("error", ["ImportError('no libsycl')", "ValueError('numpy.dtype size changed')"])
def test_a_dpnp_that_cannot_be_imported_is_unavailable_with_the_cause(tmp_path, monkeypatch, error):
    for name in ("dpnp", "dpctl"):
        (tmp_path / f"{name}.py").write_text(f"raise {error}", encoding="utf-8")
        for module in [each for each in sys.modules if each.partition(".")[0] == name]:
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(Unavailable, match=r"dpnp is installed but cannot be imported: (no libsycl|numpy)"):
        SyclBackend("a processor").gpu("gpu")
