"""No test reads what another process built, nor leaves its own builds behind."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_cache_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHNEURON_CACHE", "0")
