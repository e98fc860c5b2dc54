"""The harness: devices, plan, supervised workers, stages, telemetry and the command line."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("torchneuron-harness")
except PackageNotFoundError:  # run from a checkout that was never installed
    __version__ = "0+unknown"
