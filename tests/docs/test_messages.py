"""The page of troubleshooting: each message that it quotes is one that the package has."""

import ast
import re
from pathlib import Path

import pytest_gpuperf
from pytest_gpuperf.devices.faults import remedy

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "troubleshooting.md").read_text(encoding="utf-8")
ANY = "..."  # on the page, for what differs from one message to the next


def quoted():
    """Return the messages, and the codes, in the terms that the page explains."""
    terms = re.findall(r"^(.+)\n: ", PAGE, flags=re.MULTILINE)
    return [quote for term in terms for quote in re.findall(r"`([^`]+)`", term)]


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


def test_each_quoted_message_is_one_of_the_package_or_of_a_library_that_it_knows():
    messages = "\n".join(" ".join(text.split()) for text in texts())
    patterns = {
        quote: ".*".join(map(re.escape, quote.removeprefix(ANY).strip().split(ANY))) for quote in quoted()
    }
    assert len(patterns) > 30
    unknown = [quote for quote, pattern in patterns.items() if not re.search(pattern, messages)]
    assert [] == [quote for quote in unknown if remedy(quote) is None]
