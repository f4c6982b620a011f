"""A page in a real browser: Chromium, or one of its kind, that is installed; Playwright drives it.

Without one these tests skip; with GPUPERF_NO_SKIP set, as in CI's part `browser`, they fail instead.
"""

import os
import shutil
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import simulated_suite

from pytest_gpuperf.report.html import page

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "msedge",
    "microsoft-edge",
)
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", event =>
    window.violations.push(`${event.violatedDirective} forbids ${event.blockedURI}`));
"""
LAYOUT = (Path(__file__).parent / "layout.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")  # asyncio takes the loop of Playwright for its own: no other file may meet it
def browser():
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed: pip install --group browser"
    )
    named = os.environ.get("GPUPERF_BROWSER")
    found = next(filter(None, map(shutil.which, [named] if named else NAMES)), None)
    if found is None and named:
        pytest.fail(f"GPUPERF_BROWSER is {named!r}, which is no program")
    if found is None:
        pytest.skip(f"PATH has no browser ({', '.join(NAMES)}), and GPUPERF_BROWSER names none")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found)
        yield browser
        browser.close()


class Opened:
    """A page that is open in the browser, and what else it did: what it complained of, what it loaded."""

    def __init__(self, view):
        self.view = view
        self.complaints = []
        self.loaded = []
        view.on("console", lambda message: self.complaints.append(message.text))
        view.on("pageerror", lambda error: self.complaints.append(str(error)))
        view.on("dialog", self._refuse)
        view.on("request", lambda request: self.loaded.append(request.url))

    def __getattr__(self, name):
        return getattr(self.view, name)

    def _refuse(self, dialog):
        self.complaints.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    @property
    def text(self):
        """All that a reader sees."""
        return self.view.inner_text("body")

    def lay_out(self):
        """Have all of it laid out, what is far from the window, too."""
        self.view.eval_on_selector_all(
            "#table > .test", "all => all.forEach(each => each.style.contentVisibility = 'visible')"
        )

    def open_all(self):
        """Open all details."""
        self.lay_out()
        self.view.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")

    def misplaced(self):
        """Return what is wrong in the layout, a sentence each."""
        self.lay_out()
        return self.view.evaluate(LAYOUT)


@pytest.fixture
def opened(browser, tmp_path):
    """Open a page, by its HTML, its file or its address; it may neither complain nor load anything else."""
    contexts, pages = [], []

    def call(page, *, width=1280, scripts=True, scheme="light", complains=False, **context):
        contexts.append(
            browser.new_context(
                viewport={"width": width, "height": 900},
                java_script_enabled=scripts,
                color_scheme=scheme,
                **context,
            )
        )
        contexts[-1].add_init_script(WATCH)
        shown = Opened(contexts[-1].new_page())
        if isinstance(page, str) and not page.startswith("http:"):
            page, text = tmp_path / f"{len(contexts)}.html", page
            page.write_text(text, encoding="utf-8")
        address = page.as_uri() if isinstance(page, Path) else page
        shown.goto(address)
        pages.append((shown, address, scripts, complains))
        return shown

    yield call
    for shown, address, scripts, complains in pages:
        assert [address] == shown.loaded
        if not complains:
            assert [] == shown.complaints
            assert not scripts or [] == shown.evaluate("window.violations")
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def measured(tmp_path_factory):
    """Return the run of the simulated suite, and its history."""
    return simulated_suite.measured(tmp_path_factory.mktemp("suite"))


@pytest.fixture(scope="session")
def example(measured, tmp_path_factory):
    """Return the file of the page of the simulated suite."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page.text(*measured), encoding="utf-8")
    return path


@contextmanager
def served(folder, **headers):
    """Serve a folder with these headers; yield its address."""

    class Handler(SimpleHTTPRequestHandler):
        def end_headers(self):
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            super().end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder)) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def serve():
    return served
