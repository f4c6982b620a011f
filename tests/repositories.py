"""Repositories of git with a project that pip installs without a network: its backend is in its tree."""

import os
import subprocess
import sys
from pathlib import Path

IDENTITY = {
    "GIT_AUTHOR_NAME": "me",
    "GIT_AUTHOR_EMAIL": "me@here",
    "GIT_COMMITTER_NAME": "me",
    "GIT_COMMITTER_EMAIL": "me@here",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}
PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "toy"
version = "{version}"
"""
BACKEND = """\
import os, tomllib, zipfile
from pathlib import Path

def build_wheel(folder, config_settings=None, metadata_directory=None):
    if Path("broken").exists():
        raise RuntimeError("broken on purpose")
    if Path("slow").exists():
        import wait
    version = tomllib.loads(Path("pyproject.toml").read_text())["project"]["version"]
    source = Path("src" if Path("src").exists() else ".")
    name, info = f"toy-{version}-py3-none-any.whl", f"toy-{version}.dist-info"
    needs = [f"Requires-Dist: {line}" for line in Path("needs").read_text().splitlines()]
    metadata = ["Metadata-Version: 2.1", "Name: toy", f"Version: {version}", *needs, ""]
    with zipfile.ZipFile(Path(folder, name), "w") as wheel:
        for path in source.glob("toy/**/*.py"):
            wheel.write(path, path.relative_to(source))
        wheel.writestr(f"{info}/METADATA", "\\n".join(metadata))
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
"""
WAIT = """\
import os, socket, time
connection = socket.create_connection(("127.0.0.1", int(os.environ["TEST_PORT"])))
connection.sendall(f"{os.getpid()}\\n".encode())
time.sleep(60)
"""
"""Tells a test that it is there, by a connection that ends with it."""


def git(folder: Path, *words: str) -> str:
    """Run git in a folder, as somebody without settings; return what it says."""
    command, environment = ["git", *words], {**os.environ, **IDENTITY}
    said = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return said.stdout.strip()


class Repository:
    """A checkout. Its path has a blank, and a letter that ASCII does not know."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "my prøject"
        self.root.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> str:
        return git(self.root, *words)

    def write(self, files: dict[str, str | None]) -> None:
        """Write files, or remove those that are None."""
        for name, text in files.items():
            path = self.root / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")

    def commit(self, files: dict[str, str | None]) -> str:
        """Write and commit files; return the commit's name."""
        self.write(files)
        self.git("add", "--all")
        self.git("commit", "-q", "--allow-empty", "-m", "it")
        return self.git("rev-parse", "HEAD")

    def bytes(self) -> dict[str, bytes]:
        """Return all that is in the checkout, git's own files, too."""
        paths = [path for path in self.root.rglob("*") if path.is_symlink() or not path.is_dir()]
        return {
            str(path.relative_to(self.root)): str(path.readlink()).encode()
            if path.is_symlink()
            else path.read_bytes()
            for path in paths
        }


def project(side: str, *, version: str = "1", needs: str = "", source: str = "") -> dict[str, str]:
    """Return the files of a project whose module `toy` says this; `source` is `src/`, or nothing."""
    return {
        "pyproject.toml": PROJECT.format(version=version),
        "backend.py": BACKEND,
        "wait.py": WAIT,
        "needs": needs,
        f"{source}toy/__init__.py": f"SIDE = {side!r}\n",
    }


def said_by(tree, program: str) -> str:
    """Return what a program prints that is run as pytest is in a tree."""
    command = [sys.executable, "-P", "-c", program]
    said = subprocess.run(
        command, cwd=tree.folder, env=dict(tree.environment), check=True, capture_output=True, text=True
    )
    return said.stdout.strip()
