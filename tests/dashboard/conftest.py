"""Stores for the pages, and the app opened on one of them without a browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.launch import APP
from results.layout import STORE_VARIABLE
from results.writer import writing
from tests.dashboard.hostile import make_hostile_store
from tests.results.checks import make_checks
from tests.results.factory import make_store
from tests.results.hurt import make_hurt_store
from tests.results.ledgers import make_ledger

OpenPage = Callable[..., AppTest]


@pytest.fixture(scope="session")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a complete run and a later, incomplete one."""
    return make_store(tmp_path_factory.mktemp("nights"))


@pytest.fixture(scope="session")
def hurt_night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a run of flakes, deaths and resumes."""
    return make_hurt_store(tmp_path_factory.mktemp("hurt_night"), tail="Fatal Python error: Aborted")


@pytest.fixture(scope="session")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a run in which every source of skips occurs."""
    return make_ledger(tmp_path_factory.mktemp("ledger"))


@pytest.fixture(scope="session")
def checks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a run of suite opinfo that has several checks."""
    return make_checks(tmp_path_factory.mktemp("checks"))


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose every name tries to be something else than text."""
    return make_hostile_store(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="session")
def no_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that holds no run."""
    folder = tmp_path_factory.mktemp("no_runs")
    with writing(folder):
        pass
    return folder


@pytest.fixture
def open_page(monkeypatch: pytest.MonkeyPatch) -> OpenPage:
    """``open_page(store, page, **query)``: the page as a reader with that address sees it."""

    def opened(store: Path, page: str = "", **query: str | list[str]) -> AppTest:
        app = AppTest.from_file(str(APP), default_timeout=30)
        if page:
            monkeypatch.setenv(STORE_VARIABLE, str(store / "nowhere"))
            app.run()  # registers the pages, without the cost of showing one
            app.switch_page(page)
        monkeypatch.setenv(STORE_VARIABLE, str(store))
        app.query_params.update(query)
        return app.run()

    return opened


def text_of(app: AppTest) -> str:
    """All prose on the page."""
    parts = [*app.title, *app.subheader, *app.markdown, *app.caption, *app.info, *app.warning, *app.error]
    return "\n".join(str(part.value) for part in [*parts, *app.text, *app.code])


def assert_sound(app: AppTest) -> None:
    """No exception box and no error box."""
    assert [str(item.message) for item in app.exception] == []
    assert [item.value for item in app.error] == []
