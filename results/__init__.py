"""The ground floor: vocabulary, event records, the store, its views and what is derived from them.

``results.open(store)`` gives a reader whose views are pandas frames. It is loaded when asked for,
since a worker that only writes events has no use for a database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from results.store import Store as Store
    from results.store import StoreError as StoreError
    from results.store import open_store as open

__all__ = ["Store", "StoreError", "open"]

_LAZY = {"Store": "Store", "StoreError": "StoreError", "open": "open_store"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from results import store

    return getattr(store, _LAZY[name])
