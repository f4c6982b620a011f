"""Many cases in one test: pytest takes longer for an id than most of our cases do; and the text of a run."""

import inspect
from functools import wraps


def for_each(names, values):
    """Call a test with each of the values in turn, as `pytest.mark.parametrize` gives them to a test each.

    A failure ends with the case. For cases that leave nothing to each other: fixtures are those of one test.
    """
    names = (names,) if isinstance(names, str) else names
    values = list(values)
    assert values

    def decorate(test):
        @wraps(test)
        def in_turn(*arguments, **fixtures):
            for value in values:
                case = dict(zip(names, value if len(names) > 1 else (value,), strict=True))
                try:
                    test(*arguments, **fixtures, **case)
                except BaseException as error:
                    error.add_note(f"for {', '.join(f'{name}={value!r}' for name, value in case.items())}")
                    raise

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in names]
        assert len(left) == len(signature.parameters) - len(names)
        in_turn.__signature__ = signature.replace(parameters=left)
        return in_turn

    return decorate


def unfolded(result) -> str:
    """Return pytest's output in one line: the terminal's width and the processor's name fold lines."""
    return " ".join(result.stdout.str().split())
