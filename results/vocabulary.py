"""The words every part of the harness uses, with what each one means and does.

This is the only copy. Three axes are kept apart: an *outcome* is what happened, an
*expectation* is what was declared beforehand, and a *verdict* is derived from the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """What happened to a case, or to one stage of it."""

    PASSED = "passed"
    FAILED_NUMERIC = "failed_numeric"
    FAILED_EXCEPTION = "failed_exception"
    UNSUPPORTED = "unsupported"
    SKIPPED_UPSTREAM = "skipped_upstream"
    SKIPPED_BACKEND = "skipped_backend"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    INFRA_ERROR = "infra_error"
    COLLECTION_ERROR = "collection_error"
    NOT_RUN = "not_run"
    VACUOUS = "vacuous"


@dataclass(frozen=True, slots=True)
class OutcomeRule:
    """How an outcome is counted.

    Attributes:
        meaning: one sentence for a reader of a report.
        counts: whether it stands in the denominator of coverage.
        gates: whether it fails a run in which the case was expected to pass.
    """

    meaning: str
    counts: bool
    gates: bool


OUTCOMES: Mapping[Outcome, OutcomeRule] = {
    Outcome.PASSED: OutcomeRule("It ran and agreed with the reference.", True, False),
    Outcome.FAILED_NUMERIC: OutcomeRule("It ran and disagreed with the reference.", True, True),
    Outcome.FAILED_EXCEPTION: OutcomeRule("It raised where the reference did not.", True, True),
    Outcome.UNSUPPORTED: OutcomeRule("The device says that it does not do this.", True, False),
    Outcome.SKIPPED_UPSTREAM: OutcomeRule("The suite itself does not run this here.", False, False),
    Outcome.SKIPPED_BACKEND: OutcomeRule("The backend's owners chose not to run it.", True, False),
    Outcome.CRASHED: OutcomeRule("The process died: a signal, an abort or an exit of its own.", True, True),
    Outcome.TIMED_OUT: OutcomeRule("The harness ended it at its deadline.", True, True),
    Outcome.OUT_OF_MEMORY: OutcomeRule("It asked for more memory than it may have.", True, True),
    Outcome.INFRA_ERROR: OutcomeRule(
        "The hub, the disk or the machine failed, not the device.", False, False
    ),
    Outcome.COLLECTION_ERROR: OutcomeRule("The test could not even be collected.", True, True),
    Outcome.NOT_RUN: OutcomeRule("It was planned and has no result.", True, False),
    Outcome.VACUOUS: OutcomeRule("It passed and proved nothing.", True, True),
}


class Expectation(StrEnum):
    """What was declared of a case before it ran."""

    PASS = "pass"
    FAIL = "fail"
    SKIP = "skip"
    FLAKY = "flaky"


class Verdict(StrEnum):
    """What an outcome means, given the expectation; always derived, never stored alone."""

    OK = "ok"
    REGRESSION = "regression"
    UNEXPECTED_PASS = "unexpected_pass"
    KNOWN_FAILURE = "known_failure"
    FLAKE = "flake"
    NEW = "new"
    INCOMPLETE = "incomplete"


def verdict(outcome: Outcome, expectation: Expectation, *, as_declared: bool = True) -> Verdict:
    """Derive the verdict of one result.

    Args:
        as_declared: whether the outcome and stage are those that the expectation names, where it names any. A
            failure of another kind, or in another stage, than the known one is a ``regression``.

    ====================  ========  ===============  ===============  =====
    outcome               pass      fail             skip             flaky
    ====================  ========  ===============  ===============  =====
    passed                ok        unexpected_pass  unexpected_pass  ok
    gates, as declared    regression known_failure   known_failure    flake
    gates, otherwise      regression regression      regression       regression
    unsupported, skipped  ok        ok               ok               ok
    infra_error, not_run  incomplete everywhere
    ====================  ========  ===============  ===============  =====

    ``new`` needs an earlier run to compare with and is given by the diff of two runs.
    """
    if outcome in (Outcome.INFRA_ERROR, Outcome.NOT_RUN):
        return Verdict.INCOMPLETE
    if outcome is Outcome.PASSED:
        unexpected = expectation in (Expectation.FAIL, Expectation.SKIP)
        return Verdict.UNEXPECTED_PASS if unexpected else Verdict.OK
    if not OUTCOMES[outcome].gates:
        return Verdict.OK
    if not as_declared:
        return Verdict.REGRESSION
    return {
        Expectation.PASS: Verdict.REGRESSION,
        Expectation.FAIL: Verdict.KNOWN_FAILURE,
        Expectation.SKIP: Verdict.KNOWN_FAILURE,
        Expectation.FLAKY: Verdict.FLAKE,
    }[expectation]


class Stage(StrEnum):
    """A step of a case. A model goes through the first five; every other case is one ``test``."""

    FETCH = "fetch"
    LOAD = "load"
    FORWARD = "forward"
    BACKWARD = "backward"
    COMPILE = "compile"
    TEST = "test"


MODEL_STAGES = (Stage.FETCH, Stage.LOAD, Stage.FORWARD, Stage.BACKWARD, Stage.COMPILE)
"""The stages of a model case in order; ``fetch`` is the harness's, the other four are the device's."""

DEVICE_STAGES = MODEL_STAGES[1:]


class CaseKind(StrEnum):
    """What a case exercises."""

    MODEL = "model"
    OPINFO = "opinfo"
    PYTEST = "pytest"
    CLAIM = "claim"


class Evidence(StrEnum):
    """How the result of a stage was come by."""

    RAN = "ran"
    """The stage ran."""

    HEADER = "header"
    """The model's safetensors header lists the tensors of the model that stands for its class."""

    REPRESENTATIVE = "representative"
    """The stage ran for the model that stands for its class."""

    CACHED = "cached"
    """An earlier run found it, of the same model, device build and software."""


class Route(StrEnum):
    """Where an operator ran."""

    NATIVE = "native"
    FALLBACK = "fallback"


class Fate(StrEnum):
    """How a worker process ended; ``FATES`` says what each one means."""

    FINISHED = "finished"
    KILLED_AT_DEADLINE = "killed_at_deadline"
    SILENT = "silent"
    MEMORY_LIMIT = "memory_limit"
    PROCESS_LIMIT = "process_limit"
    OOM_KILLED = "oom_killed"
    SIGNALLED = "signalled"
    EXITED = "exited"
    DIED_AFTER_SUCCESS = "died_after_success"
    DIED_AT_START = "died_at_start"
    DIED_AT_COLLECTION = "died_at_collection"
    LOG_REFUSED = "log_refused"
    DISK_FULL = "disk_full"
    LOST = "lost"
    INTERRUPTED = "interrupted"


FATES: Mapping[Fate, str] = {
    Fate.FINISHED: "It ran its cases and exited.",
    Fate.KILLED_AT_DEADLINE: "The harness ended it: a stage took longer than its deadline.",
    Fate.SILENT: "The harness ended it: it neither recorded nor printed anything for too long.",
    Fate.MEMORY_LIMIT: "The harness ended it: it and its children held more memory than they may.",
    Fate.PROCESS_LIMIT: "The harness ended it: it had more processes than it may.",
    Fate.OOM_KILLED: "The kernel killed it because memory had run out.",
    Fate.SIGNALLED: "A signal ended it that the harness did not send.",
    Fate.EXITED: "It exited in the middle of a case, or between two.",
    Fate.DIED_AFTER_SUCCESS: "It ended badly after its last case had its result.",
    Fate.DIED_AT_START: "It ended before its first case, importing or reaching for the device.",
    Fate.DIED_AT_COLLECTION: "It ended while it collected tests.",
    Fate.LOG_REFUSED: "The harness ended it: its log was damaged or spoke of what was not its work.",
    Fate.DISK_FULL: "It stopped because its log could not be written.",
    Fate.LOST: "Its node, or the server it was forked from, went away under it.",
    Fate.INTERRUPTED: "The run was stopped while it worked.",
}
"""What each fate says, for a reader of a report."""


class RunState(StrEnum):
    """Where a run stands."""

    RUNNING = "running"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    DEVICE_DOWN = "device_down"


def case_outcome(stages: Mapping[Stage, Outcome], planned: tuple[Stage, ...]) -> tuple[Outcome, Stage]:
    """Fold the outcomes of a case's stages into one, with the stage that decided it.

    The first planned stage, in order, that did not pass decides; a planned stage without a
    result is ``not_run``. A case all of whose stages passed is decided by its last stage.
    """
    for stage in planned:
        outcome = stages.get(stage, Outcome.NOT_RUN)
        if outcome is not Outcome.PASSED:
            return outcome, stage
    return Outcome.PASSED, planned[-1]


class SkipSource(StrEnum):
    """Who decided that a case does not run; every skip has exactly one."""

    UNCATEGORISED = "uncategorised"
    DELIBERATE = "deliberate"
    ELIGIBILITY = "eligibility"


SKIP_SOURCES: Mapping[SkipSource, str] = {
    SkipSource.UNCATEGORISED: "No rule knows the reason yet, so nothing can be said of it.",
    SkipSource.DELIBERATE: "The owners of the backend declared it in an expectation file.",
    SkipSource.ELIGIBILITY: "The suite itself, or its upstream, does not run it here.",
}
"""What each source says; in the order in which a report shows them."""

UNCATEGORISED = SkipSource.UNCATEGORISED.value
"""Stands for the category of a skip that has none. No member of ``Category``: it explains nothing."""


class Category(StrEnum):
    """Why a case is skipped, or not expected to pass; a closed list, so that reasons can be counted."""

    NO_NATIVE_LOWERING = "no_native_lowering"
    COMPOSITE_COMPLIANCE = "composite_compliance"
    SPARSE = "sparse"
    NESTED_TENSOR = "nested_tensor"
    FORWARD_AD = "forward_ad"
    ATTENTION_MASK = "attention_mask"
    PER_CHANNEL_QUANTIZATION = "per_channel_quantization"
    NEG_CONJ_VIEW = "neg_conj_view"
    SIGNAL_WINDOW = "signal_window"
    UPSAMPLE = "upsample"
    DYNAMIC_SHAPES = "dynamic_shapes"
    CUDA_GRAPHS = "cuda_graphs"
    NCCL = "nccl"
    CUDA_DYNAMO = "cuda_dynamo"
    NUMERICS = "numerics"
    ERROR_MESSAGE = "error_message"
    CRASH = "crash"
    FLAKY = "flaky"
    UPSTREAM_BUG = "upstream_bug"
    DEVICE_BUG = "device_bug"
    HARNESS_GAP = "harness_gap"
    DTYPE = "dtype"
    MEMORY = "memory"
    SLOW = "slow"
    DEVICE_GATE = "device_gate"
    DEVICE_COUNT = "device_count"
    MISSING_LIBRARY = "missing_library"
    PYTHON_DEPENDENCY = "python_dependency"
    CONFIGURATION = "configuration"
    DISABLED_UPSTREAM = "disabled_upstream"
    OPINFO_ENTRY = "opinfo_entry"
    EXPECTED_FAILURE = "expected_failure"
    NEEDS_SAMPLES = "needs_samples"
    NOT_IMPLEMENTED = "not_implemented"
    BODY = "body"
    MODEL_UNAVAILABLE = "model_unavailable"
    REFERENCE_FAILED = "reference_failed"


@dataclass(frozen=True, slots=True)
class CategoryRule:
    """What a category says and who may use it.

    Attributes:
        meaning: one sentence for a reader of the ledger.
        deliberate: whether an expectation file may name it.
        eligibility: whether a suite's own skip may have it.
    """

    meaning: str
    deliberate: bool
    eligibility: bool


def _deliberate(meaning: str) -> CategoryRule:
    return CategoryRule(meaning, deliberate=True, eligibility=False)


def _eligibility(meaning: str) -> CategoryRule:
    return CategoryRule(meaning, deliberate=False, eligibility=True)


def _either(meaning: str) -> CategoryRule:
    return CategoryRule(meaning, deliberate=True, eligibility=True)


CATEGORIES: Mapping[Category, CategoryRule] = {
    Category.NO_NATIVE_LOWERING: _deliberate("The compiler stack has no native form of the operator."),
    Category.COMPOSITE_COMPLIANCE: _deliberate("A composite operator is not decomposed as upstream asks."),
    Category.SPARSE: _deliberate("It needs sparse tensors."),
    Category.NESTED_TENSOR: _deliberate("It needs nested tensors."),
    Category.FORWARD_AD: _deliberate("It needs forward-mode differentiation."),
    Category.ATTENTION_MASK: _deliberate("It needs an arbitrary attention mask; none and causal work."),
    Category.PER_CHANNEL_QUANTIZATION: _deliberate("It needs per-channel quantisation."),
    Category.NEG_CONJ_VIEW: _deliberate("It needs negative or conjugate view bits."),
    Category.SIGNAL_WINDOW: _deliberate("It needs torch.signal windows."),
    Category.UPSAMPLE: _deliberate("It needs bilinear or bicubic upsampling."),
    Category.DYNAMIC_SHAPES: _deliberate("It needs dynamic or symbolic shapes."),
    Category.CUDA_GRAPHS: _deliberate("It needs CUDA graphs."),
    Category.NCCL: _deliberate("It needs a collective that only NCCL has."),
    Category.CUDA_DYNAMO: _deliberate("It takes a path of Dynamo that only CUDA has."),
    Category.NUMERICS: _deliberate("The result differs within what the device promises."),
    Category.ERROR_MESSAGE: _deliberate("It fails as it should, in other words than upstream's."),
    Category.CRASH: _deliberate("It ends the process."),
    Category.FLAKY: _deliberate("It comes out differently on equal inputs."),
    Category.UPSTREAM_BUG: _deliberate("PyTorch or the model is at fault."),
    Category.DEVICE_BUG: _deliberate("A known fault of the device, to be fixed."),
    Category.HARNESS_GAP: _deliberate("The harness cannot judge it yet."),
    Category.DTYPE: _either("The device, or upstream for this operator, does not have the dtype."),
    Category.MEMORY: _either("It asks for more memory than there is, or than can be known."),
    Category.SLOW: _either("It takes longer than it is worth in this run."),
    Category.DEVICE_GATE: _eligibility("Upstream runs it on other devices only."),
    Category.DEVICE_COUNT: _eligibility("It needs more devices, or processes, than there are."),
    Category.MISSING_LIBRARY: _eligibility("PyTorch was built without a library that it needs."),
    Category.PYTHON_DEPENDENCY: _eligibility("It needs a Python package or tool that is not installed."),
    Category.CONFIGURATION: _eligibility(
        "Upstream does not run it on this platform or in this mode of its tests."
    ),
    Category.DISABLED_UPSTREAM: _eligibility("Upstream switched it off, in its source or by an issue."),
    Category.OPINFO_ENTRY: _eligibility(
        "The entry of the operator, module or optimizer excludes it or says that it fails."
    ),
    Category.EXPECTED_FAILURE: _eligibility("The test itself is marked as one that fails."),
    Category.NEEDS_SAMPLES: _eligibility("Upstream has no inputs, or no such variant, to run it with."),
    Category.NOT_IMPLEMENTED: _eligibility(
        "It raised NotImplementedError, which upstream lets pass as a skip."
    ),
    Category.BODY: _eligibility("The test's own code finds, as it runs, that it does not apply."),
    Category.MODEL_UNAVAILABLE: _eligibility("The model cannot be had, or not be loaded, on any device."),
    Category.REFERENCE_FAILED: _eligibility("The reference fails too, so the device cannot be judged."),
}
"""What each category says, for a reader of the ledger and of the audit."""

DELIBERATE = tuple(category for category, rule in CATEGORIES.items() if rule.deliberate)
"""Categories that an expectation file may name."""
