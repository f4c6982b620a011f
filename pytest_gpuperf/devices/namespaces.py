"""A library's namespace whose functions were changed so that what they make lives on one device."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

__all__ = ["Namespace"]


class Namespace(ModuleType):
    """A module as seen through `change`, which gets each name with its value and returns what to show.

    Torch and JAX put a new array on their own default device. That device belongs to the suite, so it is not
    set: each function is told where its result has to be. What is set on a namespace stays on it.
    """

    def __init__(self, module: ModuleType, change: Callable[[str, Any], Any]) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__dict__.update(_module=module, _change=change)

    def __getattr__(self, name: str) -> Any:
        if "_module" not in self.__dict__:  # a copy that is not set up yet
            raise AttributeError(name)
        value = self._change(name, getattr(self._module, name))
        setattr(self, name, value)  # the next look does not come here
        return value

    def __dir__(self) -> list[str]:
        return dir(self._module)
