"""What finds the speedup tests of a suite; tests/plugin has pytest runs with it."""

import subprocess
import sys
from itertools import count, repeat
from types import SimpleNamespace

import pytest
from cases import for_each

from pytest_gpuperf.collection.finder import registered_backends
from pytest_gpuperf.devices.simulated import SimulatedBackend


def test_collection_needs_no_device_and_no_numpy():
    program = "import sys, pytest_gpuperf.collection.finder; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"numpy", "pytest_gpuperf.devices.jax"}.isdisjoint(ran.stdout.split())


class Hostile:
    """Raises whatever it is asked."""

    def __getattr__(self, name):
        raise RuntimeError(name)

    __eq__ = __bool__ = __len__ = __hash__ = lambda self, *_: 1 / 0


def asked_of(*answers):
    """Return a run's configuration whose plugins answer this, or raise it, and how often each was asked."""
    calls = []

    def hook():
        calls.append("asked")
        for each in answers:
            if isinstance(each, BaseException):
                raise each
        return [*answers]

    hook.get_hookimpls = lambda: [SimpleNamespace(plugin_name="theirs")]
    return SimpleNamespace(hook=SimpleNamespace(pytest_gpuperf_devices=hook), stash=pytest.Stash()), calls


def named(name):
    found = SimulatedBackend()
    found.name = name
    return found


def raising(error):
    raise error
    yield


def test_the_backends_of_plugins_are_asked_for_once_in_a_run():
    one, other = SimulatedBackend(name="one"), SimulatedBackend(name="other")
    config, calls = asked_of([one], (each for each in [other]), other, ())
    assert [one, other, other] == registered_backends(config) == registered_backends(config)
    assert ["asked"] == calls


NO_BACKEND = r".* is no backend: it must be of a subclass of pytest_gpuperf\.Backend, with a name \("


@for_each(
    ("answer", "said"),
    [
        (3, NO_BACKEND),
        ([object()], NO_BACKEND),
        ([Hostile()], NO_BACKEND),
        (Hostile(), NO_BACKEND),
        ([type("It", (SimulatedBackend,), {"name": "it"})], NO_BACKEND),
        ([SimpleNamespace(name="it", check=1, gpu=1, cpu=1)], NO_BACKEND),
        ("mine", NO_BACKEND),
        (count(), NO_BACKEND),
        *(([named(name)], NO_BACKEND) for name in ("", "a:b", 7, None)),
        (ZeroDivisionError("it"), r"the hook raised ZeroDivisionError: it, in .*test_finder.py, line \d+"),
        (SystemExit(3), r"the hook raised SystemExit: 3, in .*"),
        (pytest.skip.Exception("it"), r"the hook raised Skipped: it, in .*"),
        (raising(KeyError("it")), r"the hook raised KeyError: 'it', in .*test_finder.py, line \d+"),
    ],
)
def test_what_is_no_backend_is_a_usage_error_each_time_it_is_needed(answer, said):
    config, calls = asked_of(answer)
    for _ in range(2):
        with pytest.raises(pytest.UsageError, match=rf"^pytest_gpuperf_devices \(theirs\): {said}"):
            registered_backends(config)
    assert ["asked"] == calls


def test_a_plugin_with_an_endless_answer_ends_no_run():
    one = SimulatedBackend()
    assert {id(one)} == {*map(id, registered_backends(asked_of(repeat(one))[0]))}


def test_a_plugin_may_end_the_run_when_it_is_asked():
    with pytest.raises(pytest.exit.Exception, match="enough"):
        registered_backends(asked_of(pytest.exit.Exception("enough"))[0])
