"""What a check says of itself; :mod:`suites.opinfo.trial` runs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from results.vocabulary import Category
from suites.compare import ToleranceOf
from suites.device import TestedDevice
from suites.opinfo.entries import Entry
from suites.opinfo.judge import Sample, judge
from suites.opinfo.samples import Call, spread
from suites.opinfo.subject import Subject

NO_SUCH_CALL = "no sample of the operator can be made into such a call"


class UnfitCallError(Exception):
    """Raised by a check on the CPU: this call has nothing that it could check.

    Args:
        reason: why, for the result of an entry that has no other calls.
        category: what kind of skip that is.
    """

    def __init__(self, reason: str = NO_SUCH_CALL, category: Category = Category.NEEDS_SAMPLES) -> None:
        super().__init__(reason)
        self.reason = reason
        self.category = category


class Check:
    """One way to use an entry, on the CPU and on a device, and to compare the two.

    Attributes:
        name: stands in the case's id.
        meaning: one sentence for a reader of a report.
        most: at most so many calls, spread evenly over the samples.
        wide: whether it is also run in float64, where rounding cannot be taken for an error.
        derived: whether its calls are made out of the samples, so that an entry may rightly have none.
        empty_proves: whether a result without elements proves something: its shape and dtype do.
        paired: whether each kernel is recorded beside the operator that was called. That takes a dispatch
            mode, under which autograd chooses other formulas and Dynamo does not compile.
        calls_prove: whether it passes only if an op call was recorded on the device.
    """

    name: ClassVar[str]
    meaning: ClassVar[str]
    most: ClassVar[int] = 20
    wide: ClassVar[bool] = False
    derived: ClassVar[bool] = False
    empty_proves: ClassVar[bool] = False
    paired: ClassVar[bool] = True
    calls_prove: ClassVar[bool] = True

    def lacks(self, entry: Entry, dtype: torch.dtype) -> str:
        """Why an entry has no such check, ``""`` if it has; asked when a run is planned."""
        return ""

    def calls(self, subject: Subject) -> Sequence[Call]:
        """The calls to make, on the CPU; none of them is run itself, only copies are."""
        return spread(subject.calls, self.most)

    def same(self, call: Call) -> Call | None:
        """Another call that must give the same: what the CPU gives for either is right. ``None``: none."""
        return None

    def invoke(self, subject: Subject, call: Call, device: TestedDevice | None) -> Any:
        """Do it with a call whose tensors are on the device, or on the CPU if ``device`` is ``None``.

        Returns a tree that :func:`suites.compare.compare` takes. What it raises is the device's answer; on
        the CPU it means that this call cannot be compared.
        """
        return subject.entry.run(call)

    def tolerance(self, sample: Sample, device: TestedDevice) -> ToleranceOf:
        """Bounds by dtype for a sample's results; the traits may widen them for an operator."""
        return device.tolerance

    def judge(self, sample: Sample, subject: Subject, device: TestedDevice) -> None:
        """Fill in the sample's outcome; by default by comparing what it returned and what it wrote into."""
        judge(
            sample,
            device,
            subject.entry.name,
            subject.dtype,
            empty_proves=self.empty_proves,
            tolerance=self.tolerance(sample, device),
        )
