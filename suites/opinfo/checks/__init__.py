"""The checks of an entry in a dtype, each a way to use the device that can be right or wrong by itself."""

from __future__ import annotations

from collections.abc import Mapping

from suites.opinfo.checks.autocast import Autocast
from suites.opinfo.checks.backward import Backward
from suites.opinfo.checks.base import Check
from suites.opinfo.checks.compiled import Compile
from suites.opinfo.checks.errors import Errors
from suites.opinfo.checks.forward import Determinism, Forward, NonContiguous
from suites.opinfo.checks.gradgrad import GradGrad
from suites.opinfo.checks.in_place import InPlace
from suites.opinfo.checks.out import Out
from suites.opinfo.checks.zero_dim import ZeroDim
from suites.opinfo.checks.zero_size import ZeroSize

CHECKS: Mapping[str, Check] = {
    check.name: check
    for check in (
        Forward(),
        Backward(),
        GradGrad(),
        Out(),
        InPlace(),
        NonContiguous(),
        ZeroSize(),
        ZeroDim(),
        Errors(),
        Autocast(),
        Determinism(),
        Compile(),
    )
}
"""By name, in the order in which reports show them."""

__all__ = ["CHECKS", "Check"]
