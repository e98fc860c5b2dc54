"""The commands ``harness zoo …``: the models themselves, apart from any run."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from harness.errors import ExitCode, UsageError
from model_zoo.mirror import FaultError
from model_zoo.mirror.__main__ import add_arguments, make_server
from model_zoo.mirror.__main__ import serve as serve_mirror
from model_zoo.mirror.repository import MirrorError

Add = Callable[[Any], None]
"""Adds one command to the group; takes what ``add_subparsers`` gave."""


def add_group(children: Any) -> None:
    """Add the group and every command of :data:`COMMANDS`."""
    text = "the model zoo: its mirror of the Hub, its catalog"
    group = children.add_parser("zoo", help=text, description=text)
    actions = group.add_subparsers(metavar="COMMAND", required=True)
    for add in COMMANDS:
        add(actions)


def serve(options: argparse.Namespace) -> int:
    """Serve a directory as the Hub would until interrupted."""
    try:
        server = make_server(options)
    except (FaultError, MirrorError, OSError) as error:
        raise UsageError(f"cannot serve {options.directory}: {error}") from error
    serve_mirror(server)
    return ExitCode.OK


def _add_serve(actions: Any) -> None:
    text = "serve a folder of models through the Hub's HTTP API, on this machine or to a cluster"
    child = actions.add_parser("serve", help=text, description=text)
    add_arguments(child)
    child.set_defaults(function=serve)


COMMANDS: tuple[Add, ...] = (_add_serve,)
"""The commands of the group, in the order of its help."""
