"""Two trees of a repository: what each has, what is said of them, and that nothing of them is left."""

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from cases import for_each
from repositories import IDENTITY, Repository, project, said_by

from pytest_gpuperf.cli import checkout, installed
from pytest_gpuperf.cli.trees import listed, two_trees, with_heads
from pytest_gpuperf.model.errors import GpuPerfError

# An earlier test may have imported JAX, which warns of the fork that `preexec_fn` is.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
SIDE = "import toy; print(toy.SIDE)"
TEST = "import os, toy\n\ndef test_side():\n    assert os.environ['SIDE'] == toy.SIDE\n"


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Let temporary files be in a folder of their own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def repository(tmp_path, temporary):
    return Repository(tmp_path)


@pytest.fixture
def refused(repository, temporary):
    """Return why there are no trees; nothing is left of them."""

    def call(ref="HEAD", start=None):
        before = repository.bytes()
        with pytest.raises(GpuPerfError) as error, two_trees(ref, start or repository.root):
            pass
        assert before == repository.bytes()
        assert [] == [*temporary.iterdir()]
        return str(error.value)

    return call


@pytest.fixture
def without(monkeypatch, tmp_path):
    """Let PATH have git, unless not even that, and these programs alone."""

    def call(*, git=True, **programs):
        folder = tmp_path / "programs"
        folder.mkdir()
        if git:
            (folder / "git").symlink_to(shutil.which("git"))
        for name, text in programs.items():
            (folder / name).write_text(text)
            (folder / name).chmod(stat.S_IRWXU)
        monkeypatch.setenv("PATH", str(folder))

    return call


def customized(folder: Path, monkeypatch, program: str) -> None:
    """Let Python begin with a program, as an editable install's line in a .pth file is one."""
    (folder / "site").mkdir()
    (folder / "site/sitecustomize.py").write_text(program, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(folder / "site"))


# What the trees are.


@pytest.fixture(scope="module")
def rich(tmp_path_factory):
    """Return a repository with changes of all kinds, and its two trees."""
    folder = tmp_path_factory.mktemp("rich")
    repository = Repository(folder)
    base = project("base", needs="numpy>=1\npluggy", source="src/")
    repository.commit(
        {
            **base,
            ".gitignore": "ignored\n",
            "pytest.ini": "[pytest]\nmarkers = old\n",
            "src/toy/gone.py": "",
            "src/toy/moved.py": "MOVED = 1\n",
            "tests/test_old.py": "",
            "tests/data/input": "old",
        }
    )
    repository.git("branch", "old")
    repository.commit(
        {
            **project("head", version="2", needs="numpy>=2\npluggy", source="src/"),
            "pytest.ini": "[pytest]\nmarkers = new\n",
            "tests/test_old.py": None,
            "tests/test_added.py": TEST,
            "tests/data/input": "new",
        }
    )
    repository.write(
        {
            "src/toy/__init__.py": "SIDE = 'changed'\n",
            "src/toy/gone.py": None,
            "src/toy/new ü.py": "",
            "src/toy/moved.py": None,
            "src/toy/moved/__init__.py": "MOVED = 2\n",
            "tests/test_new.py": "",
            "ignored": "",
        }
    )
    (repository.root / "link").symlink_to("src")
    for name, value in (("color.ui", "always"), ("diff.external", "false"), ("diff.relative", "true")):
        repository.git("config", name, value)
    # A hook would be run in each of the trees.
    hook = repository.root / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch hooked\n")
    hook.chmod(stat.S_IRWXU)
    os.utime(repository.root / "needs", (0, 0))  # which git would write into its index
    repository.before = repository.bytes()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in IDENTITY.items():
            patch.setenv(name, value)
        (folder / "temporary").mkdir()
        patch.setattr(tempfile, "tempdir", str(folder / "temporary"))
        with two_trees("old", repository.root / "tests") as repository.trees:
            yield repository
        assert repository.before == repository.bytes()
        assert [] == [*(folder / "temporary").iterdir()]


def roots(repository):
    return [tree.folder.parent for tree in repository.trees[:2]]


def test_each_side_imports_the_project_of_its_own_tree(rich):
    assert ["base", "changed"] == [said_by(tree, SIDE) for tree in rich.trees[:2]]


def test_the_commits_are_the_merge_base_and_head(rich):
    assert [rich.git("rev-parse", "old"), rich.git("rev-parse", "HEAD")] == [
        tree.commit for tree in rich.trees[:2]
    ]


def test_head_has_what_is_not_committed_and_nothing_that_git_ignores(rich):
    base, head = roots(rich)
    assert [True, False] == [(root / "src/toy/gone.py").exists() for root in (base, head)]
    assert [False, True] == [(root / "src/toy/new ü.py").exists() for root in (base, head)]
    assert [True, False] == [(root / "src/toy/moved.py").exists() for root in (base, head)]
    assert Path("src") == (head / "link").readlink()
    assert [] == [root for root in (base, head) if (root / "ignored").exists()]


def test_tests_are_heads_on_both_sides(rich):
    for root in roots(rich):
        assert ["data", "test_added.py", "test_new.py"] == sorted(
            path.name for path in (root / "tests").iterdir()
        )
        assert "new" == (root / "tests/data/input").read_text()


def test_pytest_is_configured_as_head_is_and_base_is_built_as_it_was(rich):
    """Base's pytest need not know head's markers, and other options would measure otherwise."""
    base, head = roots(rich)
    for name in ("pytest.ini", "pyproject.toml"):
        assert (head / name).read_bytes() == (base / name).read_bytes()
    version = "from importlib.metadata import version; print(version('toy'))"
    assert ["1", "2"] == [said_by(tree, version) for tree in rich.trees[:2]]


def test_a_side_is_described_by_its_commit_and_what_is_not_as_in_it(rich):
    base, head, *_ = rich.trees
    tests = "tests/data/input, tests/test_added.py, tests/test_old.py and 1 more"
    assert (
        f"{base.commit[:7]} with head's tests ({tests}) and configuration (pyproject.toml, pytest.ini)"
        == (base.described)
    )
    changes = "src/toy/__init__.py, src/toy/gone.py, src/toy/moved.py and 4 more"
    assert f"{head.commit[:7]} with uncommitted changes ({changes})" == head.described


def test_dependencies_that_differ_are_a_note(rich):
    both = "both are measured with what is installed here"
    assert (f"head needs numpy>=2 and base needs numpy>=1; {both}",) == rich.trees.notes


def test_both_paths_are_as_long_and_end_as_the_checkouts(rich):
    base, head, *_ = rich.trees
    assert len(str(base.folder)) == len(str(head.folder))
    assert len(base.environment["PYTHONPATH"]) == len(head.environment["PYTHONPATH"])
    assert ("my prøject", "tests") == base.folder.parts[-2:]


def test_of_the_repository_only_the_list_of_worktrees_is_written(rich):
    now = rich.bytes()
    assert rich.before == {name: now[name] for name in rich.before}
    assert {".git/worktrees"} == {name[:14] for name in now.keys() - rich.before.keys()}


def test_no_hook_of_the_users_is_run(rich):
    assert [] == [root for root in roots(rich) if (root / "hooked").exists()]


# Projects.


def test_a_project_below_the_root_is_installed_from_where_the_command_is_called(repository):
    """It is flat; pytest puts each tree's own copy in front."""
    files = {f"libs/toy/{name}": text for name, text in project("base").items()}
    repository.commit({**files, "pyproject.toml": "[tool.ruff]\n", "libs/toy/tests/test_toy.py": TEST})
    repository.commit({"libs/toy/toy/__init__.py": "SIDE = 'head'\n"})
    with two_trees("HEAD~1", repository.root / "libs/toy") as trees:
        assert () == trees.notes
        for tree in trees[:2]:
            assert tree.name == said_by(tree, SIDE)
            command = [sys.executable, "-P", "-m", "pytest", "-q", "-pno:gpuperf"]
            environment = {**tree.environment, "SIDE": tree.name, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
            ran = subprocess.run(command, cwd=tree.folder, env=environment, capture_output=True, text=True)
            assert 0 == ran.returncode, ran.stdout


def test_without_a_project_a_tree_is_all_there_is(repository):
    repository.commit(
        {"test_it.py": "", "pyproject.toml": "[tool.uv]\npackage = false\n[project]\nname='x'\n"}
    )
    with two_trees("HEAD", repository.root) as trees:
        why = "tests import what is in the tree, by pytest's rootdir or its option pythonpath"
        assert (f"base and head: no project to install in . or above it; {why}",) == trees.notes
        assert [f"{repository.git('rev-parse', 'HEAD')[:7]}"] * 2 == [tree.described for tree in trees[:2]]


def test_paths_into_the_checkout_lead_into_the_tree(repository, monkeypatch, tmp_path):
    """They may be relative, too; the environment may lie in the checkout."""
    repository.commit({"lib/toy.py": "SIDE = 'base'\n"})
    repository.commit({"lib/toy.py": "SIDE = 'head'\n"})
    inside = repository.root / "venv"
    monkeypatch.setattr(sys, "prefix", str(inside))
    paths = [str(repository.root / "lib"), "relative", str(inside), str(tmp_path)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    with two_trees("HEAD~1", repository.root) as trees:
        assert ["base", "head"] == [said_by(tree, SIDE) for tree in trees[:2]]
        assert paths[1:] == trees.base.environment["PYTHONPATH"].split(os.pathsep)[2:]


def test_users_settings_of_pip_and_python_do_not_matter(repository, tmp_path, monkeypatch):
    """With --user, pip refuses the folder; compiled files would be left."""
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path / "compiled"))
    repository.commit(project("base"))
    with two_trees("HEAD", repository.root) as trees:
        assert "base" == said_by(trees.base, SIDE)
        assert "PYTHONPYCACHEPREFIX" not in trees.base.environment


def test_uv_installs_where_it_is(repository, without, tmp_path):
    words = 'shift 5; exec "$PYTHON" -m pip install "$@"'
    without(uv=f'#!/bin/sh\nPYTHON={sys.executable}\necho "$@" >> "{tmp_path}/said"\n{words}\n')
    repository.commit(project("base"))
    with two_trees("HEAD", repository.root) as trees:
        assert ["base", "base"] == [said_by(tree, SIDE) for tree in trees[:2]]
    said = (tmp_path / "said").read_text().splitlines()
    assert 2 == len(said)
    begins = f"pip install --compile-bytecode --python {sys.executable} --quiet --no-deps --target "
    assert [] == [line for line in said if not line.startswith(begins)]


def test_repositories_within_this_one_are_named(repository, tmp_path):
    other = Repository(tmp_path / "temporary")
    other.commit({"a": ""})
    repository.commit({"test_it.py": ""})
    repository.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other.root), "sub")
    repository.commit({})
    shutil.copytree(other.root, repository.root / "nested")
    shutil.rmtree(other.root)
    (repository.root / "sub/a").write_text("changed")
    with two_trees("HEAD", repository.root) as trees:
        assert "repositories in this one are in neither tree: sub, nested/" == trees.notes[-1]
        assert f"{trees.head.commit[:7]}" == trees.head.described
        assert [] == [*(trees.head.folder / "sub").iterdir()]


def test_a_folder_that_was_a_link_or_a_file_is_no_way_into_the_checkout(repository, tmp_path):
    repository.commit({"shared/test_it.py": "base's", "benchmarks": "a file", "test_file.py/a": ""})
    (repository.root / "tests").symlink_to(repository.root / "shared")
    repository.commit({})
    repository.commit({"benchmarks": None, "test_file.py/a": None, "tests": None})
    (repository.root / "test_file.py").rmdir()
    repository.commit(
        {"benchmarks/test_it.py": "", "tests/test_it.py": "head's", "test_file.py": "now a file"}
    )
    before = repository.bytes()
    with two_trees("HEAD~2", repository.root) as trees:
        for tree in trees[:2]:
            assert "head's" == (tree.folder / "tests/test_it.py").read_text()
            assert "" == (tree.folder / "benchmarks/test_it.py").read_text()
            assert "now a file" == (tree.folder / "test_file.py").read_text()
        assert "base's" == (repository.root / "shared/test_it.py").read_text()
    assert before == repository.bytes()


def test_a_hooks_variables_of_git_lead_nowhere_else(repository, tmp_path, monkeypatch):
    """As where the command is called in a hook of another repository."""
    commit = repository.commit({"a": ""})
    other = Repository(tmp_path / "temporary")
    other.commit({"b": ""})
    monkeypatch.setenv("GIT_DIR", str(other.root / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.root / ".git/index"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.root))
    with two_trees("HEAD", repository.root) as trees:
        assert [commit, commit] == [tree.commit for tree in trees[:2]]
        assert set() == {"GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"} & trees.head.environment.keys()


# What is refused.


def test_without_git(repository, refused, without):
    without(git=False)
    assert "git is not installed, and gpuperf against compares commits of git; install it" == refused()


def test_outside_of_a_repository(refused, tmp_path):
    said = refused(start=tmp_path)
    assert f"{tmp_path} is in no checkout that git can read (fatal: not a git repository" in said
    assert said.endswith("; call gpuperf against in one")


def test_before_the_first_commit(repository, refused):
    said = f"{repository.root} has no commit yet; commit first: gpuperf against compares with a commit"
    assert said == refused()


@for_each(
    ("ref", "remedy"),
    [
        ("origin/main", "fetch it first: git fetch origin main"),
        ("fork/a/b", "fetch it first: git fetch fork a/b"),
        ("main", "fetch it first: git fetch origin main, and name it FETCH_HEAD"),
        ("feature/x", "fetch it first: git fetch origin feature/x, and name it FETCH_HEAD"),
        ("HEAD~9", "git log shows which there are"),
        ("@{u}", "git log shows which there are"),
    ],
)
def test_what_to_do_for_a_commit_that_is_not_here(ref, remedy):
    assert remedy == checkout.how_to_get(ref, ["origin", "fork"], shallow=False)


def test_an_unknown_commit(repository, refused):
    repository.commit({"a": ""})
    repository.git("remote", "add", "origin", "nowhere")
    said = "origin/main is no commit here; fetch it first: git fetch origin main"
    assert said == refused("origin/main")


def test_a_commit_that_looks_like_an_option(repository, refused):
    repository.commit({"a": ""})
    for ref in ("--all", ""):
        said = f"{ref!r} is no commit: name a branch, a tag or a commit, such as origin/main"
        assert said == refused(ref)


def test_a_shallow_clone(repository, refused, tmp_path):
    for _ in range(3):
        repository.commit({})
    clone = tmp_path / "clone"
    repository.git("clone", "-q", "--depth=1", f"file://{repository.root}", str(clone))
    deeper = "the clone is shallow: git fetch --unshallow, or fetch-depth: 0 of actions/checkout"
    assert f"HEAD^1 is no commit here; {deeper}" == refused("HEAD^1", clone)
    said = "git fetch --unshallow origin old; or set fetch-depth: 0 of actions/checkout"
    assert f"origin/old is no commit here; fetch it first: {said}" == refused("origin/old", clone)
    repository.git(
        "-C", str(clone), "fetch", "-q", "--depth=1", "origin", repository.git("rev-parse", "HEAD~2")
    )
    assert f"HEAD and FETCH_HEAD have no common commit here; {deeper}" == refused("FETCH_HEAD", clone)


def test_no_common_commit(repository, refused):
    repository.commit({"a": ""})
    repository.git("checkout", "-q", "--orphan", "other")
    repository.commit({"b": ""})
    remedy = "name a commit that HEAD has in its history, too"
    assert f"HEAD and main have no common commit here; {remedy}" == refused("main")


def test_a_project_that_cannot_be_installed(repository, refused, without):
    without()
    commit = repository.commit({**project("base"), "broken": ""})
    why = "cannot be installed: RuntimeError: broken on purpose"
    more = "in a checkout of it, pip wheel --no-deps . says more"
    assert f"base ({commit[:7]}) {why}; {more}" == refused()


def test_neither_pip_nor_uv(repository, refused, without, monkeypatch):
    without()
    commit = repository.commit(project("base"))
    monkeypatch.setattr(installed, "find_spec", lambda name: None)
    remedy = "install one, as in: python -m ensurepip"
    said = f"base ({commit[:7]}) cannot be installed: neither uv nor pip is here; {remedy}"
    assert said == refused()


FINDER = """
import sys
from importlib.util import spec_from_file_location

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return spec_from_file_location(name, {place!r}) if name == "toy" else None

sys.meta_path.{at}
"""


def test_an_editable_install_that_comes_first(repository, refused, tmp_path, monkeypatch):
    """As meson-python's and scikit-build-core's do; that of setuptools comes last."""
    commit = repository.commit(project("base"))
    place = str(repository.root / "toy/__init__.py")
    customized(tmp_path, monkeypatch, FINDER.format(place=place, at="insert(0, Finder)"))
    remedy = "install the project plainly in this environment, as in: pip install ."
    why = f"from {place}, which is not its own: an editable install comes first"
    assert f"base ({commit[:7]}) would import toy {why}; {remedy}" == refused()


def test_an_editable_install_that_comes_last_is_as_good_as_any(repository, tmp_path, monkeypatch):
    repository.commit(project("base"))
    repository.commit({"toy/__init__.py": "SIDE = 'head'\n"})
    program = (
        FINDER.format(place="nowhere", at="append(Finder)") + f"sys.path.append({str(repository.root)!r})"
    )
    customized(tmp_path, monkeypatch, program)
    with two_trees("HEAD~1", repository.root) as trees:
        assert ["base", "head"] == [said_by(tree, SIDE) for tree in trees[:2]]


def test_an_editable_install_of_what_the_trees_do_not_install(repository, refused, tmp_path, monkeypatch):
    commit = repository.commit({"toy.py": ""})
    customized(tmp_path, monkeypatch, f"import sys; sys.path.append({str(repository.root)!r})")
    said = (
        f"base ({commit[:7]}) would import modules from {repository.root}, which is not its own: an editable "
        "install says so; call gpuperf against in the folder of that project, or uninstall it here"
    )
    assert said == refused()


def test_a_python_that_does_not_start(repository, refused, tmp_path, monkeypatch):
    commit = repository.commit({"a": ""})
    customized(tmp_path, monkeypatch, "raise SystemExit('no')")
    assert f"Python does not start in base ({commit[:7]}): SystemExit: no" == refused()


# What is left.


def test_signals_have_their_old_handlers_afterwards(repository):
    """One that is ignored, as nohup does, stays so."""
    repository.commit({"a": ""})
    given = {signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_IGN}
    before = {number: signal.signal(number, handler) for number, handler in given.items()}
    try:
        with two_trees("HEAD", repository.root):
            assert signal.SIG_DFL != signal.getsignal(signal.SIGTERM)
            assert signal.SIG_IGN == signal.getsignal(signal.SIGHUP)
        assert given == {number: signal.getsignal(number) for number in given}
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_folders_that_cannot_be_written_are_removed(repository, temporary):
    repository.commit({"a": ""})
    with two_trees("HEAD", repository.root) as trees:
        for tree in trees[:2]:
            (tree.folder / "locked/inner").mkdir(parents=True)
            (tree.folder / "locked/inner/file").touch()
            (tree.folder / "locked/inner").chmod(stat.S_IRUSR)
    assert [] == [*temporary.iterdir()]


def test_what_lives_is_not_removed_by_others(repository):
    repository.commit({"a": ""})
    program = "from pathlib import Path\nfrom pytest_gpuperf.cli.trees import two_trees\n"
    program += "with two_trees('HEAD', Path.cwd()) as trees:\n    print(trees.base.folder.exists())"
    with two_trees("HEAD", repository.root) as trees:
        said = subprocess.run(
            [sys.executable, "-c", program], cwd=repository.root, check=True, capture_output=True, text=True
        )
        assert "True" == said.stdout.strip()
        assert all((tree.folder / "a").exists() for tree in trees[:2])
        assert 3 == len(repository.git("worktree", "list").splitlines())


def test_worktrees_of_the_users_stay_even_where_their_folder_is_missing(repository, tmp_path):
    repository.commit({"a": ""})
    repository.git("worktree", "add", "-q", str(tmp_path / "on a disk"), "--detach")
    shutil.rmtree(tmp_path / "on a disk")
    before = repository.git("worktree", "list")
    with two_trees("HEAD", repository.root):
        pass
    assert before == repository.git("worktree", "list")


PROGRAM = """
import signal
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever started the tests
from pytest_gpuperf.cli.trees import two_trees
with two_trees("HEAD", Path.cwd()):
    import wait
"""


def moments(repository):
    """Yield what to write for a run to wait while git is at work, then pip, and then what uses the trees."""
    smudge = f'"{sys.executable}" wait.py'
    repository.git("config", "filter.slow.smudge", smudge)
    yield {"slow.txt": "", ".gitattributes": "slow.txt filter=slow\n"}
    yield {".gitattributes": None, "slow": ""}
    yield {"slow": None, "pyproject.toml": None}


@pytest.mark.skipif(sys.platform == "win32", reason="signals end a process at once there")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_run_that_is_ended(repository, temporary, number):
    """At once or, after SIGKILL, by the next run, even where that is refused."""
    repository.commit(project("base"))
    for files in moments(repository):
        repository.commit(files)
        before, listed = repository.bytes(), repository.git("worktree", "list")
        with ExitStack() as stack:
            server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            server.settimeout(60)
            environment = {
                **os.environ,
                "TEST_PORT": str(server.getsockname()[1]),
                "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), str(repository.root)]),
            }
            process = stack.enter_context(
                subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=repository.root, env=environment)
            )
            at_work, _ = server.accept()
            stack.enter_context(at_work)
            at_work.settimeout(60)
            pid = int(at_work.recv(100))
            assert listed != repository.git("worktree", "list")
            process.send_signal(number)
            code = process.wait(60)
            if number == signal.SIGKILL:
                if pid != process.pid:
                    os.kill(pid, number)
                assert [] != [*temporary.iterdir()]
                with pytest.raises(GpuPerfError), two_trees("nothing", repository.root):
                    pass
            assert b"" == at_work.recv(1), "what was at work has ended, too"
        assert {signal.SIGTERM: 128 + number, signal.SIGINT: -number, signal.SIGKILL: -number}[number] == code
        assert listed == repository.git("worktree", "list")
        assert before == repository.bytes()
        assert [] == [*temporary.iterdir()]


# Helpers.


@for_each(
    ("expected", "name"),
    [
        (True, "test_it.py"),
        (True, "pkg/it_test.py"),
        (True, "conftest.py"),
        (True, "pkg/tests/data/a.npz"),
        (True, "benchmarks/it.py"),
        (False, "pkg/testing.py"),
        (False, "pkg/testing/it.py"),
        (False, "tests"),
        (False, "pytest.ini"),
        (False, "test_it.c"),
    ],
)
def test_which_files_are_tests(expected, name):
    assert expected is checkout.is_test(name)


@for_each(
    ("expected", "name"),
    [(True, "pyproject.toml"), (True, "lib/.pytest.ini"), (True, "setup.cfg"), (False, "setup.py")],
)
def test_which_files_configure_pytest(expected, name):
    assert expected is checkout.is_configuration(name)


def test_a_few_files_are_named_and_the_others_counted():
    assert "a, b, c" == listed(["a", "b", "c"])
    assert "a, b, c and 2 more" == listed(["a", "b", "c", "d", "e"])
    assert "" == with_heads(tests=[], configuration=[])
    assert " with head's configuration (tox.ini)" == with_heads(tests=[], configuration=["tox.ini"])


@for_each(
    ("expected", "base", "head"),
    [
        (None, ["a>=1", "b"], ["b", "a>=1"]),
        ("head needs b, c; both are measured with what is installed here", ["a"], ["c", "a", "b"]),
        ("base needs a; both are measured with what is installed here", ["a"], []),
    ],
)
def test_how_dependencies_differ(expected, base, head):
    assert expected == installed.difference(base, head)


PIP = """
  error: subprocess-exited-with-error

  × Building wheel for toy (pyproject.toml) did not run successfully.
  ╰─> [9 lines of output]
      {}
      [end of output]

  note: This error originates from a subprocess, and is likely not a problem with pip.
  ERROR: Failed building wheel for toy
error: failed-wheel-build-for-install

× Failed to build installable wheels for some pyproject.toml based projects
╰─> toy
"""  # noqa: RUF001 - its own signs
UV = """
error: Failed to build `toy @ file:///toy`
  cause: The build backend returned an error
  cause: {}
"""


@for_each(
    ("expected", "said"),
    [
        (
            "error: Command 'gcc' failed",
            PIP.format("c.c:1:9: error: expected\n      error: Command 'gcc' failed"),
        ),
        ("tomllib.TOMLDecodeError: no", PIP.format("Traceback\n      tomllib.TOMLDecodeError: no\n")),
        ("ERROR: No matching distribution", PIP.format("ERROR: None\n      ERROR: No matching distribution")),
        ("error: failed-wheel-build-for-install", PIP.format("it says nothing that is known")),
        ("Call to `build_wheel` failed", UV.format("Call to `build_wheel` failed")),
        (
            "RuntimeError: why",
            UV.format("Call to `build_wheel` failed\n\n    [stderr]\n    RuntimeError: why"),
        ),
        ("Killed", "Killed\n\n"),
        ("it says nothing", ""),
    ],
)
def test_the_line_of_an_installer_that_says_why(expected, said):
    assert expected == installed.reason_in(said)
