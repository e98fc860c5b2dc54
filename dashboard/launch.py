"""The command that serves the pages, and the rule for which store they show."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from results.layout import default_store

APP = Path(__file__).with_name("app.py")


def command(store: Path, port: int | None = None, address: str = "localhost") -> list[str]:
    """The argument vector that serves a store.

    It listens on this machine only unless told otherwise: the pages have no login.
    """
    server = {
        "server.headless": "true",
        "server.address": address,
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": "false",
    }
    if port is not None:
        server["server.port"] = str(port)
    flags = [f"--{name}={value}" for name, value in server.items()]
    return [sys.executable, "-m", "streamlit", "run", str(APP), *flags, "--", "--store", str(store)]


def parser() -> argparse.ArgumentParser:
    """Arguments of ``python -m dashboard``."""
    parsed = argparse.ArgumentParser(prog="python -m dashboard", description="Serve the pages over a store.")
    parsed.add_argument(
        "--store", type=Path, default=default_store(), help="its folder (default: %(default)s)"
    )
    parsed.add_argument("--port", type=int, help="default: the first free one from 8501")
    parsed.add_argument("--address", default="localhost", help="what to listen on (default: %(default)s)")
    return parsed


def store_path(arguments: Sequence[str]) -> Path:
    """The store named after ``--`` on Streamlit's command line, else ``$HARNESS_STORE`` or the default."""
    script = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    script.add_argument("--store", type=Path)
    known, _ = script.parse_known_args(list(arguments))
    return known.store or default_store()
