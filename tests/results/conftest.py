"""A store that tests only read, made once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import results
from tests.results.factory import make_store


@pytest.fixture(scope="session")
def store_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the complete and the incomplete run of the factory."""
    return make_store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def store(store_path: Path) -> Iterator[results.Store]:
    """A reader of that store."""
    with results.open(store_path) as reader:
        yield reader
