"""Claims that do not hold are refuted: on a device for which they are false, or that was made to lie."""

from __future__ import annotations

import os
import sys
import time

import pytest
import torch

from harness import devices
from results.vocabulary import Outcome
from suites.claims import child, ranks
from suites.claims.checks import NotApplicableError, NumbersDifferError, RefutedError
from suites.claims.claim import A_FOLDER, Scope, Subject
from suites.claims.registry import case_of, claims
from suites.claims.run import run_case
from suites.claims.topics import modelling, profiling
from suites.device import Tolerance
from torchneuron_backend import device_module, faults, launch, numerics

CPU = Subject("cpu", lambda _: Tolerance(1e-3, 1e-5))
NEURON = Subject("neuron", lambda _: Tolerance(1e-3, 1e-5))


def result_of(key: str, device: str = "neuron"):
    return run_case(case_of(claims()[key]), devices.get(device))


@pytest.fixture
def fault():
    yield faults.set
    faults.clear()


# What is true of neuron alone is false of the CPU.
FALSE_ON_THE_CPU = {
    "names::is_privateuse1": "PrivateUse1",
    "names::tracks_executed_operators": "clear_op_tracking",
    "names::tracks_fallen_back_operators": "clear_op_tracking",
    "dtypes::int64_in_32_bits": "exact",
    "dtypes::float64_in_32_bits": "exact",
    "refusals::sparse": "was not refused",
    "refusals::nested": "was not refused",
    "refusals::forward_mode": "was not refused",
    "refusals::fp8": "was not refused",
    "refusals::per_channel_quantisation": "was not refused",
    "refusals::conjugate_and_negative_views": "conj and neg",
}


@pytest.mark.parametrize(("key", "seen"), FALSE_ON_THE_CPU.items(), ids=FALSE_ON_THE_CPU)
def test_it_is_false_of_the_cpu(key: str, seen: str) -> None:
    with pytest.raises(RefutedError, match=seen):
        claims()[key].check(CPU)


@pytest.mark.parametrize(
    ("key", "op"),
    [
        ("dtypes::bfloat16", "aten::mm"),
        ("dtypes::float32", "aten::mm"),
        ("execution::fusing_changes_no_number", "aten::mm"),
        ("models::grouped_mm", "aten::mm.out"),
        ("models::flex_attention_eager", "aten::_safe_softmax"),
        ("streams::events_hold", "aten::mm"),
    ],
)
def test_wrong_numbers_refute_it(key: str, op: str, fault) -> None:
    fault(op, "nan")
    result = result_of(key)
    assert result.outcome in (Outcome.FAILED_NUMERIC, Outcome.FAILED_EXCEPTION)
    assert result.message.startswith(claims()[key].statement)
    faults.clear()
    assert result_of(key).outcome is Outcome.PASSED


def test_numbers_that_waver_refute_that_execution_is_deterministic(fault) -> None:
    fault("aten::native_layer_norm", "nondeterminism", 9)
    assert "numbers differ by" in result_of("execution::same_numbers_each_time").message


def test_an_error_that_comes_late_is_the_claims(fault) -> None:
    fault("aten::relu", "late_error")
    result = result_of("dtypes::float32")
    assert result.outcome is Outcome.FAILED_EXCEPTION
    assert "Seen: " in result.message


def test_an_operator_lost_on_the_way_refutes_the_order(fault) -> None:
    fault("aten::remainder_.Scalar", "error", 3)
    assert result_of("execution::order_of_the_queue").outcome is Outcome.FAILED_EXCEPTION


def test_64_bits_in_32_are_seen() -> None:
    assert result_of("dtypes::int64_in_32_bits").outcome is Outcome.FAILED_EXCEPTION
    numerics.set_64_bit_policy("32")
    try:
        assert result_of("dtypes::int64_in_32_bits").outcome is Outcome.PASSED
    finally:
        numerics.set_64_bit_policy("exact")


def test_a_launch_that_waits_refutes_that_python_runs_ahead() -> None:
    check = claims()["execution::python_runs_ahead"].check
    assert launch.is_launch_blocking()
    with pytest.raises(RefutedError, match="were done when the last call returned"):
        check(NEURON)
    launch.set_launch_blocking(False)
    try:
        check(NEURON)
    finally:
        launch.set_launch_blocking(True)


def test_a_launch_that_waits_refutes_that_errors_surface_late_and_that_priority_decides() -> None:
    with pytest.raises(RefutedError, match="the operator itself raised"):
        claims()["execution::errors_surface_late"].check(NEURON)
    with pytest.raises(RefutedError, match="urgent product"):
        claims()["streams::priority_decides"].check(NEURON)


def test_two_queues_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 0.0, 0.5] * 6 + [0.0, 1.0, 0.0, 1.0])  # half the time, in all rounds but one
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    before = torch.get_num_threads()
    try:
        with pytest.raises(RefutedError, match=r"took 0\.50, .*, 1\.00 of the time"):
            claims()["streams::one_hardware_queue"].check(NEURON)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    "name",
    [
        "fullgraph",
        "through_aot_autograd",
        "dynamic_is_rejected",
        "a_graph_per_shape",
        "eager_after_eight_shapes",
        "mode_is_ignored",
        "graph_breaks",
        "metrics",
        "a_failed_compile_raises",
    ],
)
def test_a_backend_that_compiles_nothing_is_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    with pytest.raises(RefutedError):
        claims()[f"compile::{name}"].check(NEURON)


def test_a_default_backend_that_is_not_kept_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.compiler, "set_default_backend", lambda _: None)
    with pytest.raises(RefutedError, match="the default backend is 'inductor'"):
        claims()["compile::default_backend"].check(NEURON)


def test_a_seed_that_is_not_heeded_refutes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "manual_seed", lambda _: None)
    with pytest.raises(RefutedError, match="one seed gave two rows"):
        claims()["random::seeded_by_torch"].check(NEURON)


def test_tracking_that_keeps_silent_refutes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_module, "get_fallback_ops", lambda: set())
    with pytest.raises(RefutedError, match=r"it names \[\]"):
        claims()["names::tracks_fallen_back_operators"].check(NEURON)


def test_a_profiler_that_sees_no_device_refutes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = profiling.profile
    monkeypatch.setattr(profiling, "profile", lambda activities: real(activities=activities[:1]))
    with pytest.raises(RefutedError, match="nothing of the device"):
        claims()["profiler::shows_device_work"].check(NEURON)


def test_a_layer_that_is_not_run_again_refutes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modelling, "checkpoint", lambda function, *inputs, use_reentrant: function(*inputs))
    with pytest.raises(RefutedError, match=r"ran on \['neuron'\]"):
        claims()["models::checkpoints_compute_again"].check(NEURON)


def test_an_accelerator_in_name_only_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "memory_allocated", lambda: 0)
    with pytest.raises(RefutedError, match=r"memory_allocated\(\) grew by 0"):
        claims()["names::torch_accelerator"].check(NEURON)


def test_a_scope_says_why_it_leaves_a_device_out() -> None:
    assert Scope.NEURON.why_not("cuda") == "it says something of the device neuron only, not of cuda"
    assert "not the one of torch.accelerator" in Scope.ACCELERATOR.why_not("cpu")
    assert Scope.ANY.why_not("cpu") == ""
    assert [scope.why_not("neuron") for scope in Scope] == [""] * 3


@pytest.mark.parametrize(
    ("program", "seen"),
    [
        ("import os; os.abort()", "ended with -6"),
        ("import sys; print('why', file=sys.stderr); sys.exit(3)", "ended with 3: why"),
    ],
)
def test_a_process_that_dies_refutes_what_it_was_to_check(program: str, seen: str) -> None:
    with pytest.raises(RefutedError, match=seen):
        child.run([sys.executable, "-c", program], {})


def test_a_process_that_hangs_is_ended_and_refutes_it() -> None:
    with pytest.raises(RefutedError, match="did not end within 1 s"):
        child.run([sys.executable, "-c", "import time; time.sleep(60)"], {}, seconds=1)


def test_a_process_has_the_environment_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GONE", "1")
    program = "import os; print(os.environ.get('GONE'), os.environ['HERE'])"
    assert child.run([sys.executable, "-c", program], {"GONE": None, "HERE": "yes"}) == "None yes\n"


def test_an_empty_folder_is_there_while_the_claim_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}

    def run(command, changes):
        seen.update(changes, files=os.listdir(changes["TORCH_NEURONX_DEBUG_DIR"]))
        return child.answer_of(None)

    monkeypatch.setattr(child, "run", run)
    child.check_in_child(claims()["environment::kept_artefacts"], "neuron")
    assert seen["files"] == []
    assert seen["TORCH_NEURONX_DEBUG_DIR"] != A_FOLDER
    assert not os.path.exists(seen["TORCH_NEURONX_DEBUG_DIR"])


@pytest.mark.parametrize(
    ("raised", "kind", "text"),
    [
        (RefutedError("no"), RefutedError, "no"),
        (NumbersDifferError("1, 2"), NumbersDifferError, "1, 2"),
        (NotApplicableError("one device"), NotApplicableError, "one device"),
        (ValueError("odd"), RefutedError, "ValueError: odd"),
    ],
)
def test_what_a_process_raised_is_raised_again(raised, kind, text) -> None:
    with pytest.raises(kind) as caught:
        child.raise_answer(f"noise\n{child.answer_of(raised)}\n")
    assert type(caught.value) is kind
    assert str(caught.value) == text


def test_a_process_without_an_answer_refutes_it() -> None:
    child.raise_answer(child.answer_of(None))
    with pytest.raises(RefutedError, match="without an answer"):
        child.raise_answer("noise\n")


def test_two_processes_need_a_backend_and_two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RefutedError, match="no backend 'nope' for cpu"):
        ranks.check(CPU, "process_group", "nope")
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 1)
    with pytest.raises(NotApplicableError, match="needs 2 devices"):
        ranks.check(NEURON, "process_group", "gloo")


def test_two_processes_make_a_group_and_a_mesh() -> None:
    ranks.check(CPU, "process_group", "gloo")
    ranks.check(CPU, "device_mesh", "gloo")


def test_what_one_of_two_processes_raises_is_told() -> None:
    with pytest.raises(RefutedError, match="KeyError: 'no_such_work'"):
        ranks.check(CPU, "no_such_work", "gloo")


def test_two_processes_that_hang_are_ended() -> None:
    with pytest.raises(RefutedError, match="did not end within 0 s"):
        ranks.check(CPU, "process_group", "gloo", seconds=0.2)
