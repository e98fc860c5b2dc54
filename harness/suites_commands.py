"""The commands ``harness suites …``: PyTorch's own test files."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.commands import print_table
from harness.errors import ExitCode, InfrastructureError, UsageError
from harness.upstream import cache, current_source
from results.layout import database_path
from suites import upstream
from suites.upstream.families import FamilyError, files_of, load_families
from suites.upstream.fetch import UnreachableError, wanted_ref
from suites.upstream.fetch import fetch as fetch_by_git
from suites.upstream.source import Source, SourceError, examine, installed_torch, save


def fetch(options: argparse.Namespace) -> int:
    """Bring PyTorch's test files, or take a folder of them, and say what they are."""
    folder = cache(options.store.resolve())
    try:
        source = _bring(options, folder)
    except UnreachableError as error:
        raise InfrastructureError(str(error)) from error
    except SourceError as error:
        raise UsageError(str(error)) from error
    save(source, folder)
    version = f"PyTorch {source.version}" if source.version else "an unknown PyTorch"
    commit = f", commit {source.commit[:12]}" if source.commit else ""
    print(f"{len(files_of(Path(source.root)))} test files of {version}{commit}: {source.root}")
    if source.mismatch:
        print(f"taken in spite of this: {source.mismatch}")
    return ExitCode.OK


def _bring(options: argparse.Namespace, folder: Path) -> Source:
    torch, allow = installed_torch(), options.allow_mismatch
    if options.source is not None:
        return examine(options.source, f"folder {options.source.resolve()}", torch, allow_mismatch=allow)
    ref = wanted_ref(torch, options.torch_version or "")
    return fetch_by_git(folder, ref, torch, url=options.url, allow_mismatch=allow)


def list_files(options: argparse.Namespace) -> int:
    """List the test files by family, with what the last complete run that took each one collected of it."""
    root = Path(current_source(options.store.resolve()).root)
    try:
        families = load_families()
        if options.family is not None:
            families.select([], [options.family], [])
        known = [(families.of(file), file) for file in files_of(root)]
    except FamilyError as error:
        raise UsageError(str(error)) from error
    collected = _last_collected(options.store, options.device)
    rows = [
        {"family": family, "file": file, **collected.get(file, {"collected": None, "run": ""})}
        for family, file in sorted(known)
        if options.family in (None, family)
    ]
    print_table(rows, options.format)
    return ExitCode.OK


def _last_collected(store: Path, device: str | None) -> Mapping[str, dict[str, Any]]:
    """File to the number of tests that its last run collected, and that run."""
    from results.store import open_store

    if not database_path(store).exists():
        return {}
    with open_store(store) as reader:
        rows = reader.query_rows(_LAST, [upstream.NAME, device or ""])
    return {row["file"]: {"collected": row["collected"], "run": row["run"]} for row in rows}


_LAST = """
SELECT c.file, arg_max(c.collected, r.started) AS collected, arg_max(c.run, r.started) AS run
FROM v_collected c
JOIN v_run_heads r USING (run)
WHERE c.suite = $1 AND ($2 = '' OR r.device = $2)
    AND coalesce(json_extract_string(r.settings, '$.test_filter'), '*') = '*'
GROUP BY c.file
"""


def accept(options: argparse.Namespace) -> int:
    """Take the number of tests that a run collected as right."""
    from results.collected import accept as accept_run
    from results.store import open_store

    with open_store(options.store) as reader:
        device = accept_run(reader, options.run)
    print(f"runs on {device} are compared with {options.run} and later ones from now on")
    return ExitCode.OK
