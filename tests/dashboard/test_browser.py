"""The real server in a real browser: every page paints, says what it must, and reports no error."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from results.ingest import ingest
from results.layout import run_path
from tests.dashboard import hostile as names
from tests.results import hurt, ledgers
from tests.results.factory import COMPLETE_RUN, INCOMPLETE_RUN, make_run, make_store

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra: dev)")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium, google-chrome or chromium-browser on the PATH"),
]

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MODEL = "acme/tiny-gpt2"
PAGES = {
    "overview": ("", {}, ["Models by stage", "Top gaps", "Complete: all 208 planned cases"]),
    "models": ("models", {}, ["Models", "2 of 7 models pass every stage"]),
    "model": ("model", {"model": MODEL}, [MODEL, "cannot lower aten::tril", "Over the runs"]),
    "operators": ("operators", {}, ["Gaps: what fell back to the CPU", "All operators"]),
    "operator": ("operator", {"op": "aten::cumsum"}, ["aten::cumsum", "Models that call it"]),
    "tests": ("tests", {}, ["1–100 of 200 tests"]),
    "test": ("test", {"case": "opinfo::op40::forward[float32]"}, ["max abs error"]),
    "skips": ("skips", {}, ["4 skips of 208 planned cases", "The sums add up", "By category", "Cases"]),
    "compare": (
        "compare",
        {"before": INCOMPLETE_RUN},
        ["Compare", "What became of the cases", "3 cases", "INCOMPLETE: 3 of 208 cases have no result."],
    ),
    "run": ("run", {}, ["Worker processes that died", "Slowest cases", "Where the time went"]),
    "about": ("about", {}, ["About the numbers", "Read it yourself"]),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of its own, since a test adds a run to it."""
    served = ledgers.make_ledger(make_store(tmp_path_factory.mktemp("served")))
    return names.make_hostile_store(hurt.make_hurt_store(served))


@pytest.fixture(scope="module")
def site(store: Path) -> Iterator[str]:
    """Address of a server started as a user starts it."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    argv = [sys.executable, "-m", "dashboard", "--store", str(store), "--port", str(port)]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        _wait_for(f"http://localhost:{port}/_stcore/health", server)
        yield f"http://localhost:{port}"
    finally:
        server.terminate()
        server.communicate(timeout=20)


def _wait_for(address: str, server: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            if server.poll() is not None:
                pytest.fail(f"the server ended: {server.communicate()[0]}")
            if time.monotonic() > deadline:
                pytest.fail("the server did not answer within 60 s")
            time.sleep(0.2)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One headless Chromium for all tests."""
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield running
        running.close()


class Tab:
    """A tab that remembers what went wrong in it."""

    def __init__(self, browser: Any, site: str, scheme: str = "light") -> None:
        self.site = site
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.troubles: list[str] = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("dialog", lambda dialog: self.troubles.append(f"dialog: {dialog.message}"))
        self.page.on("request", self._asked)

    def open(self, path: str, **query: str) -> None:
        """Go to a page and wait until its script has ended."""
        self.page.goto(f"{self.site}/{path}?{urlencode(query)}")
        self.settle()

    def settle(self) -> None:
        """Wait until the script has ended."""
        self.page.wait_for_selector("[data-testid=stMain] h1", timeout=30_000)
        self.page.wait_for_selector("[data-test-script-state=notRunning]", state="attached", timeout=30_000)

    def sees(self, text: str) -> None:
        """The text is visible, or becomes so."""
        playwright.expect(self.page.get_by_text(text).first).to_be_visible(timeout=15_000)

    def assert_sound(self) -> None:
        """No error in the console, no exception box, nothing asked of another machine."""
        assert self.troubles == []
        assert self.page.locator("[data-testid=stException]").count() == 0

    def _said(self, message: Any) -> None:
        # Streamlit looks for its server below a page's address first, and is told 404.
        probing = re.search(r"/\w+/_stcore/(health|host-config)$", message.location.get("url", ""))
        if message.type == "error" and not probing:
            self.troubles.append(f"{message.text} ({message.location.get('url')})")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.site, "data:", "blob:", self.site.replace("http", "ws"))):
            self.troubles.append(f"asked another machine for {request.url}")


@pytest.fixture
def tab(browser: Any, site: str) -> Iterator[Tab]:
    """A fresh tab: its own session, without cookies."""
    opened = Tab(browser, site)
    yield opened
    opened.context.close()


@pytest.mark.parametrize("name", PAGES)
def test_every_page_paints_without_an_error(tab: Tab, name: str, tmp_path: Path) -> None:
    path, query, texts = PAGES[name]
    tab.open(path, run=COMPLETE_RUN, **query)
    for text in texts:
        tab.sees(text)
    tab.page.screenshot(path=tmp_path / f"{name}.png", full_page=True)
    tab.assert_sound()


def test_the_charts_are_drawn(tab: Tab) -> None:
    tab.open("", run=COMPLETE_RUN)
    charts = tab.page.locator(
        "[data-testid=stVegaLiteChart]:is([aria-label*=stage], :has([aria-label*=stage]))"
    )
    charts.first.wait_for()
    tab.page.wait_for_timeout(500)
    drawn = tab.page.locator("[data-testid=stVegaLiteChart]").locator("canvas, svg")
    heights = [drawn.nth(at).bounding_box()["height"] for at in range(drawn.count())]
    assert len([height for height in heights if height > 100]) >= 2, heights
    tab.assert_sound()


def test_the_overview_paints_in_the_dark(browser: Any, site: str, tmp_path: Path) -> None:
    tab = Tab(browser, site, scheme="dark")
    tab.open("", run=INCOMPLETE_RUN)
    tab.sees("INCOMPLETE: 3 of 208 cases have no result.")
    background = tab.page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
    assert max(map(int, re.findall(r"\d+", background)[:3])) < 64
    tab.page.screenshot(path=tmp_path / "overview-dark.png")
    tab.assert_sound()
    tab.context.close()


def test_a_case_that_changed_is_a_click_away(tab: Tab) -> None:
    tab.open("compare", run=COMPLETE_RUN, before=INCOMPLETE_RUN, change="now_run")
    tab.page.locator("td", has_text="opinfo::op49::forward[bool]").first.wait_for(state="attached")
    table = tab.page.locator("[data-testid=stDataFrame]").last
    table.scroll_into_view_if_needed()
    grid = table.bounding_box()
    tab.page.mouse.click(grid["x"] + 200, grid["y"] + 52)
    tab.page.wait_for_url(re.compile(rf"/test\?(?=.*case=opinfo)(?=.*run={COMPLETE_RUN})"))
    tab.assert_sound()


def test_a_click_on_a_row_opens_its_page_and_the_way_back_keeps_the_filters(tab: Tab) -> None:
    tab.open("models", run=COMPLETE_RUN, task="text-generation")
    grid = tab.page.locator("[data-testid=stDataFrame]").first
    tab.page.locator("td", has_text=MODEL).first.wait_for(state="attached")  # the grid has its rows
    corner = grid.bounding_box()
    tab.page.mouse.click(corner["x"] + 60, corner["y"] + 52)
    # The run is put back a moment after the switch, when its picker is there again.
    tab.page.wait_for_url(re.compile(rf"/model\?(?=.*model=acme%2Ftiny-gpt2)(?=.*run={COMPLETE_RUN})"))
    tab.sees("cannot lower aten::tril")
    tab.page.get_by_test_id("stMain").get_by_role("link", name="Models").click()
    tab.page.wait_for_url(re.compile(r"/models\?.*task=text-generation"))
    tab.sees("0 of 2 models pass every stage")
    tab.assert_sound()


def test_the_case_that_disturbs_a_flake_is_a_click_away(tab: Tab) -> None:
    tab.open("test", run=hurt.RUN, case=hurt.FLAKY.id)
    tab.sees("Attempts")
    tab.page.get_by_role("button", name="culprit").click()
    tab.page.wait_for_url(re.compile(r"/test\?(?=.*case=opinfo%3A%3Aculprit)"))
    tab.sees("These cases fail after it in one process")
    tab.page.wait_for_url(re.compile(rf"run={hurt.RUN}"))
    tab.assert_sound()


def test_a_filter_that_is_set_stands_in_the_address(tab: Tab) -> None:
    tab.open("models", run=COMPLETE_RUN)
    search = tab.page.get_by_role("textbox", name="Search")
    search.fill("whisper")
    search.press("Enter")
    tab.page.wait_for_url(re.compile(r"q=whisper"))
    tab.sees("0 of 1 model pass")
    tab.assert_sound()


def test_a_category_of_skips_is_a_click_away(tab: Tab) -> None:
    tab.open("skips", run=ledgers.RUN)
    tab.sees("UNCATEGORISED: 2 skips have no known reason.")
    tab.page.locator("td", has_text="device_gate").first.wait_for(state="attached")
    corner = tab.page.locator("[data-testid=stDataFrame]").first.bounding_box()
    tab.page.mouse.click(corner["x"] + 160, corner["y"] + 52 + 2 * 35)  # the third row
    tab.page.wait_for_url(re.compile(r"/skips\?(?=.*category=device_gate)"))
    tab.sees("3 cases")
    tab.assert_sound()


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("", {}),
        ("models", {}),
        ("model", {"model": names.MODEL}),
        ("operator", {"op": names.OP}),
        ("test", {"case": names.TEST}),
        ("test", {"case": names.FLAKY}),
        ("compare", {"before": COMPLETE_RUN}),
        ("run", {}),
    ],
)
def test_hostile_names_do_nothing(tab: Tab, path: str, query: dict[str, str]) -> None:
    tab.open(path, run=names.RUN, **query)
    for name in query.values():
        if name == COMPLETE_RUN:
            continue  # no hostile name
        tab.sees(name.split(":red")[0][-40:].split("(javascript:")[0])
    assert tab.page.locator("[data-testid=stMain] img[src*=x]").count() == 0
    assert tab.page.locator("a[href^=javascript]").count() == 0
    tab.assert_sound()


def test_a_download_is_the_table(tab: Tab, tmp_path: Path) -> None:
    tab.open("operators", run=COMPLETE_RUN)
    with tab.page.expect_download() as download:
        tab.page.locator(".st-key-gaps_csv button:visible").click()
    assert download.value.suggested_filename == "gaps.csv"
    download.value.save_as(tmp_path / "gaps.csv")
    lines = (tmp_path / "gaps.csv").read_text().splitlines()
    assert lines[0].startswith("rank,op,models")
    assert lines[1].startswith("1,aten::cumsum,3")


def test_an_open_page_learns_of_a_new_run(tab: Tab, store: Path) -> None:
    tab.open("")
    ingest(store, make_run(run_path(store, "2026-11-05-night"), "2026-11-05-night"))
    tab.sees("There are new results.")
    tab.page.get_by_role("button", name="Show them").click()
    tab.sees("run 2026-11-05-night")
    tab.assert_sound()
