"""``python -m model_zoo.mirror DIR``: serve a mirror directory until interrupted."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path

from model_zoo.mirror.faults import FaultError, parse_fault, read_faults
from model_zoo.mirror.repository import MirrorError
from model_zoo.mirror.server import PAGE_SIZE, MirrorServer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a server, for this command and for ``harness zoo serve``."""
    parser.add_argument("directory", type=Path, metavar="DIR", help="folder of ORG/NAME folders of models")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="0 picks a free port (default: 8000)")
    parser.add_argument(
        "--upstream", metavar="URL", help="Hub that what DIR lacks is fetched from, and kept of below DIR"
    )
    parser.add_argument(
        "--storage", action="store_true", help="send large files by redirects, from a second port"
    )
    parser.add_argument(
        "--page-size", type=int, default=PAGE_SIZE, metavar="N", help=f"entries a page (default: {PAGE_SIZE})"
    )
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="KIND[,OPTION=VALUE...]",
        help="fail on demand, e.g. rate-limit,path=/tree/,times=2,retry-after=3; may be given again",
    )
    parser.add_argument("--faults", type=Path, metavar="FILE", help="TOML with one table [[fault]] a fault")
    parser.add_argument("--quiet", action="store_true", help="do not print requests")


def make_server(options: argparse.Namespace) -> MirrorServer:
    """The server that the options ask for, not started.

    Raises:
        MirrorError: the directory, or the upstream's URL, cannot be used.
        FaultError: a fault cannot be understood.
        OSError: the address cannot be listened on.
    """
    faults = [parse_fault(text) for text in options.fault]
    faults += read_faults(options.faults) if options.faults else []
    if options.upstream and not options.upstream.startswith(("http://", "https://")):
        raise MirrorError(f"an upstream is a URL such as https://huggingface.co, not {options.upstream!r}")
    if options.page_size < 1:
        raise MirrorError(f"a page has at least 1 entry, not {options.page_size}")
    server = MirrorServer(
        options.directory,
        options.host,
        options.port,
        page_size=options.page_size,
        quiet=options.quiet,
        storage=options.storage,
        upstream=options.upstream,
    )
    for fault in faults:
        server.faults.add(fault)
    return server


def serve(server: MirrorServer) -> None:
    """Say where it is and answer until interrupted."""
    print(f"export HF_ENDPOINT={server.endpoint}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
    server.stop()


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 after an interrupt, 2 if something that was given cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m model_zoo.mirror", description=__doc__)
    add_arguments(parser)
    options = parser.parse_args(arguments)
    try:
        server = make_server(options)
    except (FaultError, MirrorError, OSError) as error:
        print(f"cannot serve {options.directory}: {error}", file=sys.stderr)
        return 2
    serve(server)
    return 0


if __name__ == "__main__":
    sys.exit(main())
