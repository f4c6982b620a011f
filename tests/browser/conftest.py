"""A page in a real browser: Chromium, or one of its kind, that is installed; Playwright drives it.

Without one these tests skip; with GPUPERF_NO_SKIP set, as in CI's part `browser`, they fail instead.
"""

import os
import shutil
from pathlib import Path

import pytest
import simulated_suite

from pytest_gpuperf.report.html import page

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"]
NAMES += ["msedge", "microsoft-edge"]
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
        view.on("dialog", lambda dialog: (self.complaints.append("a dialog"), dialog.dismiss()))
        view.on("request", lambda request: self.loaded.append(request.url))

    def __getattr__(self, name):
        return getattr(self.view, name)

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
    """Open a page, by its HTML or its file; it may neither complain nor load anything else.

    With a policy, it comes from a server that demands it, of which the page may complain.
    """
    contexts, pages = [], []

    def call(page, *, width=1280, scripts=True, scheme="light", policy=None):
        size = {"width": width, "height": 900}
        context = browser.new_context(viewport=size, java_script_enabled=scripts, color_scheme=scheme)
        contexts.append(context)
        context.add_init_script(WATCH)
        shown = Opened(context.new_page())
        if isinstance(page, str):
            path = tmp_path / f"{len(contexts)}.html"
            path.write_text(page, encoding="utf-8")
            page = path
        address = page.as_uri()
        if policy:
            address, headers = f"http://build/{page.name}", {"Content-Security-Policy": policy}
            shown.route(address, lambda route: route.fulfill(path=page, headers=headers))
        shown.goto(address)
        pages.append((shown, address, scripts, policy))
        return shown

    yield call
    for shown, address, scripts, policy in pages:
        assert [address] == shown.loaded
        if not policy:
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
