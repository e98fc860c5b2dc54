"""One test of pytest, called as the harness called it.

Needs the harness, whose plugin makes the device known, and the test's file where it was; exits as pytest
does.
"""

from __future__ import annotations

import os
import subprocess
import sys

# --- case ---
ROOT = "."
VARIABLES: dict[str, str] = {}
ARGUMENTS: list[str] = []
# --- end of case ---

if __name__ == "__main__":
    sys.exit(
        subprocess.run(
            [sys.executable, *ARGUMENTS], cwd=ROOT, env={**os.environ, **VARIABLES}, check=False
        ).returncode
    )
