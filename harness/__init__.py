"""The harness: devices, plan, supervised workers, stages, telemetry and the command line.

From a program or a notebook::

    import harness, results

    finished = harness.run("smoke", device="neuron")
    with results.open(finished.store) as store:
        store.view("v_funnel", run=finished.id)
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.nightly import Run

try:
    __version__ = version("torchneuron-harness")
except PackageNotFoundError:  # run from a checkout that was never installed
    __version__ = "0+unknown"


def run(profile: str = "default", store: Path | str | None = None, **fields: Any) -> Run:
    """Run a profile and return what became of it.

    Args:
        profile: name of a profile that comes with the package or stands in ``harness.toml``.
        store: folder of the results; by default ``$HARNESS_STORE`` or ``harness-data``.
        fields: fields of the profile to override, e.g. ``models=10``.

    Raises:
        harness.errors.HarnessError: the device, the hub or the selection cannot be used.
    """
    from harness.nightly import run as run_profile
    from harness.profiles import load_profile
    from results.layout import default_store

    return run_profile(load_profile(profile, fields), Path(store) if store else default_store())
