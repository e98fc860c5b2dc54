"""``python -m model_zoo.mirror DIR``: serve a mirror directory until interrupted."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path

from model_zoo.mirror.repository import MirrorError
from model_zoo.mirror.server import MirrorServer


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 after an interrupt, 2 if the directory or the address cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m model_zoo.mirror", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=8000, help="0 picks a free port")
    parser.add_argument("--quiet", action="store_true", help="do not print requests")
    options = parser.parse_args(arguments)
    try:
        server = MirrorServer(options.directory, options.host, options.port, quiet=options.quiet)
    except (MirrorError, OSError) as error:
        print(f"cannot serve {options.directory}: {error}", file=sys.stderr)
        return 2
    print(f"export HF_ENDPOINT={server.endpoint}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
    server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
