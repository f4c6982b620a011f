"""A library's namespace with changed functions: the arrays that they make live on one device."""

from collections.abc import Callable
from types import ModuleType
from typing import Any


class Namespace(ModuleType):
    """A module whose attributes go through `change`, which maps each name and value to the value to use.

    Torch and JAX put a new array on their own default device. That setting belongs to the suite, so it stays:
    each function gets the device of its result instead. Attributes set on a namespace stay on it.
    """

    def __init__(self, module: ModuleType, change: Callable[[str, Any], Any]) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__dict__.update(_module=module, _change=change)

    def __getattr__(self, name: str) -> Any:
        if "_module" not in self.__dict__:  # copy.copy looks attributes up before __init__ has run
            raise AttributeError(name)
        value = self._change(name, getattr(self._module, name))
        setattr(self, name, value)  # the next access does not come here
        return value

    def __dir__(self) -> list[str]:
        return dir(self._module)
