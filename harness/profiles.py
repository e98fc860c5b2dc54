"""Profiles: what a run does, as data, with every field open to override."""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.limits import Deadlines, Limits
from harness.memory import available_memory
from harness.schedule import Rules

USER_FILE = "harness.toml"
EMBEDDED_HUB = "embedded"
MODELS = "models"
OPINFO = "opinfo"
PYTEST = "pytest"
UPSTREAM = "upstream"
CLAIMS = "claims"
SUITES = (MODELS, OPINFO, CLAIMS, PYTEST, UPSTREAM)
LOCAL = "local"
RAY = "ray"
ENGINES = (LOCAL, RAY)

_ADDRESS = re.compile(r"[^\s:/]+:[0-9]{1,5}|\[[0-9a-fA-F:.]+\]:[0-9]{1,5}")
_EVENTS_URL = re.compile(r"/.*|(?!memory:)[a-z][a-z0-9+.-]*://.+")
_PINNED = re.compile(r"[^@\s]+@[0-9a-f]{40}")
_AT_LEAST_1 = ("batch", "batch_seconds", "upstream_batch", "upstream_batch_seconds", "attempts")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One way to run; the fields are explained in ``profiles.toml``."""

    name: str
    device: str
    engine: str
    ray_address: str
    events_url: str
    hub: str
    models: int
    max_model_bytes: int
    max_cache_bytes: int
    prefetch: int
    allow_remote_code: tuple[str, ...]
    model_filter: str
    test_filter: str
    suites: tuple[str, ...]
    opinfo_selection: str
    opinfo_dtypes: tuple[str, ...]
    opinfo_checks: tuple[str, ...]
    opinfo_databases: tuple[str, ...]
    pytest_paths: tuple[str, ...]
    pytest_root: str
    upstream_families: tuple[str, ...]
    upstream_files: tuple[str, ...]
    upstream_batch: int
    upstream_batch_seconds: int
    max_collected_drop: int
    workers: int
    batch: int
    batch_seconds: int
    attempts: int
    max_reruns: int
    max_bisections: int
    silence: int
    max_memory_bytes: int
    max_processes: int
    seed: int
    expectations: tuple[str, ...]
    deadlines: Deadlines

    def __post_init__(self) -> None:
        unknown = sorted(set(self.suites) - set(SUITES))
        if unknown:
            raise UsageError(f"profile {self.name}: unknown suite {unknown[0]!r}; known: {', '.join(SUITES)}")
        self._check_engine()
        for field in dataclasses.fields(self):
            value, least = getattr(self, field.name), 1 if field.name in _AT_LEAST_1 else 0
            if isinstance(value, int) and value < least:
                raise UsageError(f"profile {self.name}: {field.name} is at least {least}, not {value}")
        wrong = [text for text in self.allow_remote_code if not _PINNED.fullmatch(text)]
        if wrong:
            raise UsageError(
                f"profile {self.name}: allow_remote_code takes ORG/NAME@COMMIT with a commit hash of 40 hex "
                f"digits, not {wrong[0]!r}: code is allowed as it was read, not as it may become"
            )
        if min(dataclasses.astuple(self.deadlines)) <= 0:
            raise UsageError(f"profile {self.name}: deadlines are seconds above 0")

    def _check_engine(self) -> None:
        if self.engine not in ENGINES:
            raise UsageError(
                f"profile {self.name}: unknown engine {self.engine!r}; known: {', '.join(ENGINES)}"
            )
        if self.ray_address and not _ADDRESS.fullmatch(self.ray_address):
            raise UsageError(
                f"profile {self.name}: ray_address is HOST:PORT of a cluster's head, not {self.ray_address!r}"
            )
        if self.events_url and not _EVENTS_URL.fullmatch(self.events_url):
            raise UsageError(
                f"profile {self.name}: events_url is an absolute path or a URL such as s3://bucket/logs "
                f"that every node reaches, not {self.events_url!r}"
            )

    @property
    def worker_count(self) -> int:
        """Processes at a time."""
        return self.workers or len(os.sched_getaffinity(0))

    @property
    def limits(self) -> Limits:
        """What one worker may take; where no memory limit is set, its share of 90 % of what there is."""
        share = int(available_memory() * 0.9 / self.worker_count)
        return Limits(
            deadlines=self.deadlines,
            silence=self.silence,
            memory=self.max_memory_bytes or share,
            processes=self.max_processes,
        )

    @property
    def rules(self) -> Rules:
        """How cases are batched and repeated."""
        return Rules(
            size=self.batch,
            seconds=self.batch_seconds,
            group_size=self.upstream_batch,
            group_seconds=self.upstream_batch_seconds,
            attempts=self.attempts,
            reruns=self.max_reruns,
            bisections=self.max_bisections,
        )

    @property
    def selects_all(self) -> bool:
        """Whether nothing narrows what its suites and its hub offer, but the dtypes."""
        narrowing = (self.models, self.model_filter, self.test_filter, self.opinfo_selection)
        return narrowing == (0, "*", "*", "all") and {MODELS, OPINFO} <= set(self.suites)

    def settings(self) -> dict[str, Any]:
        """The fields as plain values, for the plan."""
        return dataclasses.asdict(self)


def load_profile(
    name: str, overrides: Mapping[str, Any] | None = None, folder: Path | None = None
) -> Profile:
    """Read a profile and apply overrides (``"deadlines.compile": 60`` reaches a nested field).

    Raises:
        UsageError: no such profile, an unknown field, or a value of the wrong type.
    """
    tables = _tables(folder or Path.cwd())
    fields = _resolve(name, tables, ())
    for key, value in (overrides or {}).items():
        _assign(fields, key, value)
    return _build(name, fields)


def profile_names(folder: Path | None = None) -> list[str]:
    """The profiles that there are, the package's and those of the folder's ``harness.toml``."""
    return sorted(_tables(folder or Path.cwd()))


def stored_profile(settings: Mapping[str, Any]) -> Profile:
    """The profile a run was planned with, from its plan's settings.

    Raises:
        UsageError: it is of another version of the harness, with other fields.
    """
    fields = dict(settings)
    return _build(str(fields.pop("name", "")), fields)


def parse_assignment(text: str) -> tuple[str, Any]:
    """Parse ``key=value`` of ``--set``; the value is TOML, or a bare string.

    Raises:
        UsageError: there is no ``=``.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"--set takes KEY=VALUE, not {text!r}")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value


def _tables(folder: Path) -> dict[str, dict[str, Any]]:
    tables = tomllib.loads(files("harness").joinpath("profiles.toml").read_text())["profiles"]
    path = folder / USER_FILE
    if path.is_file():
        try:
            own = tomllib.loads(path.read_text())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{USER_FILE} is not valid TOML: {error}") from error
        for name, table in own.get("profiles", {}).items():
            if not isinstance(table, dict):
                raise UsageError(f"{USER_FILE}: profiles.{name} must be a table")
            tables[name] = {"base": "default", **table} if name not in tables else {**tables[name], **table}
    return dict(tables)


def _resolve(name: str, tables: Mapping[str, Mapping[str, Any]], seen: tuple[str, ...]) -> dict[str, Any]:
    if name in seen:
        raise UsageError(f"profiles {' -> '.join((*seen, name))} are each other's base")
    if name not in tables:
        raise UsageError(f"no profile {name!r}{_hint(name, tables)}; known: {', '.join(sorted(tables))}")
    table = dict(tables[name])
    base = table.pop("base", None)
    if base is None:
        return {**table, "deadlines": dict(table.get("deadlines", {}))}
    fields = _resolve(base, tables, (*seen, name))
    fields["deadlines"].update(table.pop("deadlines", {}))
    return {**fields, **table}


def _assign(fields: dict[str, Any], key: str, value: Any) -> None:
    table, name = fields, key
    if key.startswith("deadlines."):
        table, name = fields["deadlines"], key.removeprefix("deadlines.")
    if name not in table:
        raise UsageError(f"profiles have no field {key!r}{_hint(name, table)}")
    table[name] = value


def _build(name: str, fields: Mapping[str, Any]) -> Profile:
    known = {field.name for field in dataclasses.fields(Profile)} - {"name"}
    unknown = sorted(set(fields) - known)
    if unknown:
        raise UsageError(f"profile {name}: unknown field {unknown[0]!r}{_hint(unknown[0], known)}")
    missing = sorted(known - set(fields))
    if missing:
        raise UsageError(f"profile {name}: field {missing[0]!r} is missing")
    times = fields["deadlines"]
    unknown = sorted(set(times) - {field.name for field in dataclasses.fields(Deadlines)})
    if unknown:
        raise UsageError(f"profile {name}: unknown deadline {unknown[0]!r}")
    try:
        values = {key: _typed(key, value) for key, value in fields.items() if key != "deadlines"}
        deadlines = Deadlines(**{key: float(value) for key, value in times.items()})
    except (TypeError, ValueError) as error:
        raise UsageError(f"profile {name}: {error}") from error
    return Profile(name=name, deadlines=deadlines, **values)


def _typed(key: str, value: Any) -> Any:
    declared = str(Profile.__dataclass_fields__[key].type)
    if declared == "tuple[str, ...]":
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, Sequence) or not all(isinstance(item, str) for item in items):
            raise TypeError(f"{key} is a list of strings, not {value!r}")
        return tuple(items)
    kind = {"str": str, "int": int}[declared]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{key} is {'text' if kind is str else 'a whole number'}, not {value!r}")
    return value


def _hint(name: str, known: Mapping[str, Any] | set[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
