"""``python -m dashboard --store PATH [--port N] [--address A]``: becomes the Streamlit server."""

from __future__ import annotations

import os

from dashboard.launch import command, parser


def main() -> None:
    """Replace this process, so that a signal to it reaches the server."""
    given = parser().parse_args()
    argv = command(given.store.absolute(), given.port, given.address)
    os.execv(argv[0], argv)


if __name__ == "__main__":
    main()
