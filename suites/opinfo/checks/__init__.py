"""The checks of an entry in a dtype, each a way to use the device that can be right or wrong by itself."""

from __future__ import annotations

from collections.abc import Mapping

from suites.opinfo.checks.base import Check
from suites.opinfo.checks.forward import Determinism, Forward, NonContiguous

CHECKS: Mapping[str, Check] = {check.name: check for check in (Forward(), NonContiguous(), Determinism())}
"""By name, in the order in which reports show them."""

__all__ = ["CHECKS", "Check"]
