"""What the commands of a store have in common on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from results.layout import default_store


def add_command(
    children: Any, name: str, function: Callable[[argparse.Namespace], int], text: str
) -> argparse.ArgumentParser:
    """Add a command that works on a store; ``children`` is what ``add_subparsers`` gave."""
    child: argparse.ArgumentParser = children.add_parser(name, help=text, description=text)
    child.set_defaults(function=function)
    child.add_argument(
        "--store",
        type=Path,
        default=default_store(),
        metavar="DIR",
        help="folder of the results (default: $HARNESS_STORE, else harness-data)",
    )
    return child
