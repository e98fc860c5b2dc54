"""The list of models a run chooses from: a snapshot of the Hub, kept as a Parquet file.

One listing pass brings everything, commit hash included, at 1,000 models a request; a run then
works from the file and asks the Hub for nothing but files. Needs no torch.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Self

from model_zoo.backoff import with_backoff

SCHEMA_VERSION = 2
"""Version 1 had no ``dtype``, ``config`` and ``sizes``; read, they are what stands for the unknown."""
_VERSION_KEY = b"model_zoo.catalog.schema"
_ABOUT_KEY = b"model_zoo.catalog.about"
_LATER = frozenset({"dtype", "config", "sizes"})
_BATCH_ROWS = 1000
EXPAND: list[Any] = [  # The client declares each word as a type of its own.
    "config",
    "downloads",
    "gated",
    "library_name",
    "pipeline_tag",
    "safetensors",
    "sha",
    "siblings",
    "tags",
]
_FORMATS = {
    ".safetensors": "safetensors",
    ".bin": "pickle",
    ".pt": "pickle",
    ".pth": "pickle",
    ".ckpt": "pickle",
    ".gguf": "gguf",
    ".onnx": "onnx",
    ".h5": "tensorflow",
    ".msgpack": "flax",
}


class CatalogError(ValueError):
    """A catalog file that cannot be read, or a model that a Hub does not show; says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """One model as the Hub describes it; ``""`` and ``()`` stand for what it does not say.

    Attributes:
        id: ``org/name``.
        revision: commit hash, 40 hex digits.
        library: e.g. ``transformers``.
        task: the Hub's pipeline tag, e.g. ``fill-mask``.
        architecture: first of the configuration's classes, e.g. ``BertForMaskedLM``.
        model_type: of the configuration, e.g. ``bert``.
        parameters: number of elements by the safetensors headers; 0 if unknown.
        dtype: of most of them, by its safetensors name, e.g. ``BF16``.
        downloads: of the last 30 days, as the Hub counts.
        gated: ``""``, ``"auto"`` or ``"manual"``.
        custom_code: whether the repository brings code of its own.
        files: weight files, sorted.
        formats: of those files: safetensors, pickle, gguf, onnx, tensorflow, flax.
        sizes: of those files, in bytes; ``()`` where nobody asked for them.
        config: what of ``config.json`` decides the class, as :func:`model_zoo.classes.relevant` writes it;
            a listing does not bring it.
    """

    id: str
    revision: str
    library: str = ""
    task: str = ""
    architecture: str = ""
    model_type: str = ""
    parameters: int = 0
    downloads: int = 0
    gated: str = ""
    custom_code: bool = False
    files: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    dtype: str = ""
    config: str = ""
    sizes: tuple[int, ...] = ()

    @property
    def config_hash(self) -> str:
        """Hash of what of the configuration decides the class; ``""`` if that is unknown."""
        return hashlib.sha256(self.config.encode()).hexdigest() if self.config else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Where a catalog comes from, as it stands in the file's metadata.

    Attributes:
        hub: its address.
        taken: when the walk began, ISO 8601 in UTC.
        selection: what was asked for, in words.
        hub_downloads: downloads of all models of the Hub together, -1 if nobody counted.
    """

    hub: str = ""
    taken: str = ""
    selection: str = ""
    hub_downloads: int = -1


def snapshot(
    endpoint: str | None = None,
    limit: int | None = None,
    *,
    task: str | None = None,
    author: str | None = None,
    filter: str | Sequence[str] | None = None,
    search: str | None = None,
    token: str | bool | None = None,
    attempts: int = 5,
) -> list[CatalogEntry]:
    """List the Hub's models, most downloaded first.

    Args:
        endpoint: of the Hub or a mirror; the default is ``HF_ENDPOINT`` as it was at import.
        limit: most entries; None for all.
        task, author, filter, search: as ``HfApi.list_models`` takes them.
        attempts: how often a failing call for one model is made.

    Raises:
        OSError: what ``huggingface_hub`` raises when the Hub cannot be reached or refuses.
    """
    from huggingface_hub import HfApi

    api = HfApi(endpoint=endpoint, token=token)

    # The client repeats the pages of a listing by itself, but not the call for one model.
    found = api.list_models(
        sort="downloads",
        limit=limit,
        expand=EXPAND,
        pipeline_tag=task,
        author=author,
        filter=filter,
        search=search,
    )
    with reaching(api.endpoint):
        return [entry_of(info if info.sha else info_of(api, info.id, None, attempts)) for info in found]


def lookup(
    endpoint: str | None,
    repo_id: str,
    revision: str | None = None,
    *,
    token: str | bool | None = None,
    attempts: int = 5,
) -> CatalogEntry:
    """The entry of one model.

    Args:
        revision: a name or a commit hash; None for the main branch.

    Raises:
        CatalogError: the Hub shows no such model or revision to this client.
        OSError: the Hub cannot be reached, or keeps failing.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    api = HfApi(endpoint=endpoint, token=token)
    try:
        with reaching(api.endpoint):
            return entry_of(info_of(api, repo_id, revision, attempts))
    except RevisionNotFoundError as error:
        raise CatalogError(f"{repo_id} has no revision {revision}") from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise CatalogError(f"there is no model {repo_id}, or it is private") from error


@contextlib.contextmanager
def reaching(endpoint: str) -> Iterator[None]:
    """Turn the HTTP library's own errors, which are no OSError, into one."""
    try:
        yield
    except (OSError, ValueError):
        raise
    except Exception as error:
        raise ConnectionError(f"{endpoint} cannot be reached: {error}") from error


class CatalogWriter:
    """Writes a Parquet file of entries, some at a time, whole or not at all.

    Memory is that of one call. The schema's version stands in the file's metadata.
    """

    def __init__(self, path: Path | str, about: About | None = None) -> None:
        self._path = Path(path)
        self._about = about or About()
        self._temporary = self._path.with_name(f"{self._path.name}.tmp")

    def write(self, entries: Sequence[CatalogEntry]) -> None:
        """Append entries, in their order."""
        import pyarrow as pa

        columns = {f.name: [getattr(row, f.name) for row in entries] for f in fields(CatalogEntry)}
        self._writer.write_table(pa.table(columns, schema=_schema(self._about)))

    def __enter__(self) -> Self:
        import pyarrow.parquet as pq

        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._writer = pq.ParquetWriter(self._temporary, _schema(self._about), compression="zstd")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()
        if kind is None:
            self._temporary.replace(self._path)
        else:
            self._temporary.unlink()


def write_catalog(path: Path | str, entries: Iterable[CatalogEntry]) -> None:
    """Write entries to a Parquet file, whole or not at all."""
    with CatalogWriter(path) as writer:
        writer.write(list(entries))


def read_catalog(path: Path | str) -> list[CatalogEntry]:
    """Read a catalog in the order it was written; columns this version does not know are ignored.

    Raises:
        CatalogError: it is no catalog, of a later schema, or lacks a column.
        FileNotFoundError: there is no such file.
    """
    return list(iter_catalog(path))


def about_catalog(path: Path | str) -> About:
    """Where a catalog comes from; one that does not say gives the defaults.

    Raises:
        CatalogError, FileNotFoundError: as for :func:`read_catalog`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_schema(path).metadata or {}
    except pa.ArrowInvalid as error:
        raise CatalogError(f"{path} is not a Parquet file: {error}") from error
    try:
        return About(**json.loads(metadata.get(_ABOUT_KEY, b"{}")))
    except (ValueError, TypeError):
        return About()


def iter_catalog(path: Path | str) -> Iterator[CatalogEntry]:
    """The entries of a catalog one by one, in the order they were written.

    Raises:
        CatalogError, FileNotFoundError: as for :func:`read_catalog`, at the first entry.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [f.name for f in fields(CatalogEntry)]
    try:
        file = pq.ParquetFile(path)
        columns = [name for name in names if name in file.schema_arrow.names]
        version = int((file.schema_arrow.metadata or {}).get(_VERSION_KEY, b"0"))
        if version > SCHEMA_VERSION:
            raise CatalogError(f"{path} has schema {version}, newer than {SCHEMA_VERSION}: upgrade")
        may_lack = _LATER if version < 2 else frozenset()
        if version < 1 or not {*names} - may_lack <= {*columns}:
            raise CatalogError(f"{path} is not a model catalog")
    except pa.ArrowInvalid as error:
        raise CatalogError(f"{path} is not a Parquet file: {error}") from error
    shared: dict[str, str] = {}  # most values of these columns are those of many models
    with file:
        for batch in file.iter_batches(_BATCH_ROWS, columns=columns):
            for row in batch.to_pylist():
                yield CatalogEntry(**{key: _kept(value, shared) for key, value in row.items()})


def info_of(api: Any, repo_id: str, revision: str | None, attempts: int) -> Any:
    """One model asked for by itself; a server may leave the commit hash out of its listing."""
    return with_backoff(lambda: api.model_info(repo_id, revision=revision, expand=EXPAND), attempts=attempts)


def _main_dtype(safetensors: Any) -> str:
    """The dtype of most elements; of several, the first by name."""
    counts = dict((safetensors.parameters if safetensors else None) or {})
    return min(counts, key=lambda name: (-counts[name], name), default="")


def entry_of(info: Any) -> CatalogEntry:
    """The entry of a model as ``huggingface_hub`` gives it, which has what a listing says."""
    config = info.config or {}
    names = sorted(sibling.rfilename for sibling in info.siblings or ())
    formats = {name: _FORMATS.get(PurePosixPath(name).suffix.lower()) for name in names}
    return CatalogEntry(
        id=info.id,
        revision=info.sha or "",
        library=info.library_name or "",
        task=info.pipeline_tag or "",
        architecture=(config.get("architectures") or [""])[0],
        model_type=config.get("model_type") or "",
        parameters=int(info.safetensors.total) if info.safetensors else 0,
        dtype=_main_dtype(info.safetensors),
        downloads=info.downloads or 0,
        gated=info.gated or "",
        custom_code="custom_code" in (info.tags or ()) or "auto_map" in config,
        files=tuple(name for name in names if formats[name]),
        formats=tuple(sorted({kind for kind in formats.values() if kind})),
    )


def _schema(about: About) -> Any:
    import pyarrow as pa

    types = {
        "str": pa.string(),
        "int": pa.int64(),
        "bool": pa.bool_(),
        "tuple[str, ...]": pa.list_(pa.string()),
        "tuple[int, ...]": pa.list_(pa.int64()),
    }
    columns = [pa.field(f.name, types[str(f.type)], nullable=False) for f in fields(CatalogEntry)]
    said = json.dumps(asdict(about)).encode()
    return pa.schema(columns, metadata={_VERSION_KEY: str(SCHEMA_VERSION).encode(), _ABOUT_KEY: said})


def _kept(value: Any, shared: dict[str, str]) -> Any:
    """A value as an entry has it; equal texts are one object."""
    if isinstance(value, list):
        return tuple(_kept(item, shared) for item in value)
    return shared.setdefault(value, value) if isinstance(value, str) else value
