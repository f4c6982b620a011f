"""Devices of which a test says all that they can do."""

from pytest_gpuperf.devices.protocol import TimedDevice


def bare(**members):
    """Return a device that has these members, the methods as static ones, and the defaults of all others."""
    methods = {name: staticmethod(member) if callable(member) else member for name, member in members.items()}
    kind = type("Bare", (TimedDevice,), {"name": "a bare one", **methods})
    kind.__abstractmethods__ = frozenset()
    return kind()
