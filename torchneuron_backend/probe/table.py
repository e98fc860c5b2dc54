"""The table on disk: ``lowerings.json``, one entry a line, and the log of finished attempts that resuming
reads.
"""

from __future__ import annotations

import json
import platform
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from .attempt import NATIVE
from .calls import Key, device_form

_DETAIL_LIMIT = 140


@dataclass(frozen=True)
class Entry:
    """One row: ``aten::add.Tensor``, ``float32``, a status of ``attempt.STATUSES``, one line of detail, and
    for what is native on a condition, its name in ``conditions.CONDITIONS``.
    """

    op: str
    dtype: str
    status: str
    detail: str = ""
    when: str = ""

    def as_json(self) -> str:
        row = {"op": self.op, "dtype": self.dtype, "status": self.status}
        if self.when:
            row["when"] = self.when
        if self.detail:
            row["detail"] = self.detail
        return json.dumps(row, ensure_ascii=False)


def versions() -> dict[str, str]:
    """What the table depends on: packages by exact version, Python by major.minor."""
    return {
        "torch": version("torch").partition("+")[0],
        "torch-mlir": version("torch-mlir"),
        "jaxlib": version("jaxlib"),
        "python": ".".join(platform.python_version_tuple()[:2]),
    }


def tidy(detail: str) -> str:
    """One short line without addresses, paths or value names, so that two runs write the same."""
    detail = re.sub(r"0x[0-9a-fA-F]+", "ADDRESS", detail)
    detail = re.sub(r"(?<![\w.])/[\w./-]+/", "", detail)
    detail = re.sub(r"\s+", " ", detail).strip()
    return detail if len(detail) <= _DETAIL_LIMIT else detail[: _DETAIL_LIMIT - 1] + "…"


def finish(entries: Iterable[Entry]) -> list[Entry]:
    """Sorted and unique, with the forms a device sees added, and what only this dtype lacks named as such."""
    rows = {Key(entry.op, entry.dtype): entry for entry in entries}
    for entry in list(rows.values()):
        form = device_form(entry.op)
        if form is not None:
            rows[Key(form, entry.dtype)] = replace(entry, op=form)
    some_dtype_lowers = {entry.op for entry in rows.values() if entry.status == NATIVE}
    for key, entry in rows.items():
        unlowered = entry.status in ("no_stablehlo_legalization", "no_decomposition")
        # Where only some calls lower, a call in another form failed: that is not the dtype's doing.
        if unlowered and entry.op in some_dtype_lowers and "those before lower" not in entry.detail:
            rows[key] = replace(entry, status="dtype")
    return sorted(rows.values(), key=lambda entry: (entry.op, entry.dtype))


def write(path: Path, entries: list[Entry]) -> None:
    """Write atomically: the registration may read the file at any moment."""
    lines = ",\n".join("    " + entry.as_json() for entry in entries)
    text = f'{{\n  "versions": {json.dumps(versions())},\n  "entries": [\n{lines}\n  ]\n}}\n'
    temporary = path.with_suffix(".json.tmp")
    temporary.write_text(text)
    temporary.replace(path)


def read(path: Path) -> list[Entry]:
    """The entries of a table. Raises FileNotFoundError or json.JSONDecodeError."""
    return [Entry(**row) for row in json.loads(path.read_text())["entries"]]


def log_path(output: Path) -> Path:
    """Where finished attempts of an unfinished probe are, beside its output."""
    return output.with_suffix(".partial.jsonl")


def append(log: Path, entry: Entry) -> None:
    """Add one line; several processes may do so at once, since a short append is one write."""
    with log.open("a") as stream:
        stream.write(entry.as_json() + "\n")


def read_log(log: Path) -> list[Entry]:
    """Finished attempts; a line cut off by a kill is ignored."""
    entries = []
    for line in log.read_text().splitlines() if log.exists() else ():
        try:
            entries.append(Entry(**json.loads(line)))
        except (json.JSONDecodeError, TypeError):
            continue
    return entries


def totals(entries: Iterable[Entry]) -> Counter[str]:
    """Entries by status."""
    return Counter(entry.status for entry in entries)
