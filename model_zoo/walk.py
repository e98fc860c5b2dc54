"""A walk through the Hub's listing that can be cut short at any time and goes on where it stopped.

Each page is kept beside the catalog as soon as it is complete, with the address of the next one; the catalog
is made of them at the end. Needs no torch.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from model_zoo.catalog import (
    EXPAND,
    About,
    CatalogEntry,
    CatalogError,
    CatalogWriter,
    entry_of,
    info_of,
    iter_catalog,
    reaching,
    write_catalog,
)
from model_zoo.details import with_details
from model_zoo.pages import PAGE, first_page, read_page

Say = Callable[[str], None]
_STATE = "state.json"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a snapshot takes.

    Attributes:
        endpoint: of the Hub, without a slash at the end.
        top: at most so many models; 0 is all.
        share: so much of all downloads, 0 to 1; 1 is all models that anybody downloaded, and 0 is no bound.
        details: whether configuration and file sizes are asked for, at two requests a model.
    """

    endpoint: str
    top: int = 0
    share: float = 0.0
    details: bool = True

    def __str__(self) -> str:
        bounds = [f"top {self.top:,}"] if self.top else []
        bounds += [f"{self.share:.4%} of downloads"] if self.share else []
        return f"{' and '.join(bounds) or 'all models'}{'' if self.details else ', listing only'}"


@dataclasses.dataclass(slots=True, kw_only=True)
class _State:
    wanted: dict[str, Any]
    following: str
    taken: str
    pages: int = 0
    models: int = 0
    most: int = 0  # models to take; 0 is all
    downloads: int = -1  # of the whole Hub, -1 if nobody counted


def take_snapshot(
    wanted: Wanted,
    out: Path,
    *,
    token: str | bool | None = None,
    attempts: int = 5,
    say: Say = lambda _: None,
) -> int:
    """Write the catalog ``out``; the number of its models.

    If an earlier snapshot is there, what it knows of a model at the same revision is not asked for again.

    Raises:
        CatalogError: the listing is none, repeats itself, or what is left of a walk was for another snapshot.
        OSError: the Hub cannot be reached or limits the rate for long; a second call goes on from there.
    """
    parts = out.with_name(f"{out.name}.part")
    state = _begin(wanted, parts, token, attempts, say)
    known = _known(out) if wanted.details else {}
    seen = {entry.id for page in range(state.pages) for entry in iter_catalog(_page(parts, page))}
    while state.following and not (state.most and state.models >= state.most):
        page = read_page(state.following, token=token, attempts=attempts)
        fresh = [model for model in page.models if model.get("id") not in seen]
        if page.models and not fresh:
            raise _repeats(wanted, state.models)
        if state.most:
            fresh = fresh[: state.most - state.models]
        entries = _entries(fresh, wanted.endpoint, token, attempts, say)
        if wanted.details:
            entries = with_details(entries, wanted.endpoint, known, token=token, attempts=attempts)
        write_catalog(_page(parts, state.pages), entries)
        seen |= {str(model.get("id")) for model in fresh}
        state.pages, state.models = state.pages + 1, state.models + len(entries)
        state.following = page.following
        _keep(parts, state)
        say(f"{state.models:,} models listed")
    return _finish(wanted, state, parts, out)


def _begin(wanted: Wanted, parts: Path, token: str | bool | None, attempts: int, say: Say) -> _State:
    found = _left(parts)
    asked = dataclasses.asdict(wanted)
    if found is not None:
        if found.wanted != asked:
            earlier = Wanted(**found.wanted)
            raise CatalogError(
                f"{parts} holds the beginning of another snapshot ({earlier} of {earlier.endpoint}): "
                "ask for that one to go on, or delete the folder"
            )
        say(f"going on after {found.models:,} models")
        return found
    most, downloads = wanted.top, -1
    if wanted.share:
        reached, downloads = _reach(wanted, token, attempts, say)
        most = min(reached, wanted.top) if wanted.top else reached
        say(f"{most:,} models make up {wanted.share:.4%} of {downloads:,} downloads")
    taken = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    url = first_page(wanted.endpoint, EXPAND, min(most or PAGE, PAGE))
    nothing = wanted.share > 0 and most == 0
    return _State(wanted=asked, following="" if nothing else url, taken=taken, most=most, downloads=downloads)


def _reach(wanted: Wanted, token: str | bool | None, attempts: int, say: Say) -> tuple[int, int]:
    """How many models make up the share, and all downloads: counted, not estimated.

    The listing is read once for its downloads alone, up to the first model that nobody downloaded.
    """
    counts: list[int] = []
    seen: set[str] = set()
    following = first_page(wanted.endpoint, ["downloads"])
    while following:
        page = read_page(following, token=token, attempts=attempts)
        fresh = [model for model in page.models if model.get("id") not in seen]
        if page.models and not fresh:
            raise _repeats(wanted, len(seen))
        seen |= {str(model.get("id")) for model in fresh}
        counts += [_count(model.get("downloads")) for model in fresh]
        following = page.following if counts and counts[-1] else ""
        say(f"{len(counts):,} models counted")
    total, reached = sum(counts), 0
    for number, count in enumerate(counts):
        if reached >= wanted.share * total or not count:
            return number, total
        reached += count
    return len(counts), total


def _repeats(wanted: Wanted, after: int) -> CatalogError:
    return CatalogError(f"the listing of {wanted.endpoint} repeats itself after {after:,} models")


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0


def _entries(
    models: list[dict[str, Any]], endpoint: str, token: str | bool | None, attempts: int, say: Say
) -> list[CatalogEntry]:
    """Entries of what a page says; a model that is gone, or described by nonsense, is said and left out."""
    from huggingface_hub import HfApi, ModelInfo
    from huggingface_hub.errors import RepositoryNotFoundError

    api = HfApi(endpoint=endpoint, token=token)
    entries = []
    for model in models:
        try:
            info = ModelInfo(**model)
            if not info.sha:  # a server may leave it out of a listing
                with reaching(endpoint):
                    info = info_of(api, info.id, None, attempts)
            entries.append(entry_of(info))
        except RepositoryNotFoundError:
            say(f"{str(model.get('id'))[:100]} was listed and is gone")
        except (TypeError, AttributeError, KeyError, IndexError, ValueError) as error:
            say(f"{str(model.get('id'))[:100]} is left out: its description cannot be read ({error})")
    return entries


def _known(out: Path) -> dict[str, CatalogEntry]:
    try:
        return {entry.id: entry for entry in iter_catalog(out)}
    except FileNotFoundError:
        return {}


def _page(parts: Path, number: int) -> Path:
    return parts / f"{number:06}.parquet"


def _left(parts: Path) -> _State | None:
    try:
        return _State(**json.loads((parts / _STATE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise CatalogError(f"{parts / _STATE} is damaged: delete {parts} to begin again") from error


def _keep(parts: Path, state: _State) -> None:
    temporary = parts / f"{_STATE}.tmp"
    temporary.write_text(json.dumps(dataclasses.asdict(state)), encoding="utf-8")
    temporary.replace(parts / _STATE)


def _finish(wanted: Wanted, state: _State, parts: Path, out: Path) -> int:
    about = About(
        hub=wanted.endpoint, taken=state.taken, selection=str(wanted), hub_downloads=state.downloads
    )
    with CatalogWriter(out, about) as writer:
        for number in range(state.pages):
            writer.write(list(iter_catalog(_page(parts, number))))
    if parts.exists():
        shutil.rmtree(parts)
    return state.models
