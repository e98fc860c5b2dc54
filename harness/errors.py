"""Errors a user can do something about; the command line prints them as one sentence."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command's exit status says."""

    OK = 0
    REGRESSIONS = 1
    USAGE = 2
    INCOMPLETE = 3
    DEVICE = 4
    NOTHING_COLLECTED = 5


class HarnessError(Exception):
    """Something is wrong outside the harness; the message says what, and what to do."""

    exit_code = ExitCode.USAGE


class UsageError(HarnessError):
    """The command, a profile or a file was given wrongly."""


class DeviceError(HarnessError):
    """The device is absent, down or misbuilt."""

    exit_code = ExitCode.DEVICE


class InfrastructureError(HarnessError):
    """The hub, the disk or the machine failed."""

    exit_code = ExitCode.DEVICE


class NothingCollectedError(HarnessError):
    """The selection matched no case."""

    exit_code = ExitCode.NOTHING_COLLECTED
