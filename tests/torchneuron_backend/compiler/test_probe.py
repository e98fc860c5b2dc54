"""The lowering probe: what it says of single operators, that it survives them, and the table it has
written.
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

import torchneuron_backend
from torchneuron_backend.compiler.graph import operator_name
from torchneuron_backend.compiler.rewrites.random import RANDOM, numbers_drawn
from torchneuron_backend.probe import attempt as attempts
from torchneuron_backend.probe.__main__ import _narrow
from torchneuron_backend.probe.attempt import NATIVE, STATUSES, Outcome, attempt, measure
from torchneuron_backend.probe.calls import Call, Calls, Key, collect_program, functional_form
from torchneuron_backend.probe.conditions import CONDITIONS, held
from torchneuron_backend.probe.programs import collect_programs
from torchneuron_backend.probe.summary import Ran, _run_entry, run_on_device, share_of_programs
from torchneuron_backend.probe.table import Entry, append, finish, log_path, read, tidy, write

aten = torch.ops.aten
TABLE = Path(torchneuron_backend.__file__).parent / "lowerings.json"


def single(overload: torch._ops.OpOverload, *args: object) -> list[Call]:
    return [Call(overload, args, {})]


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Entry]:
    """A real probe of a few operators, resumed: one attempt is already in its log, another was cut off.

    In a process of its own, as XLA may run in this one already and does not survive a fork.
    """
    output = tmp_path_factory.mktemp("probe") / "table.json"
    append(log_path(output), Entry("aten::tanh", "float32", "timeout", "from before"))
    with log_path(output).open("a") as stream:
        stream.write('{"op": "aten::cut of\n')
    command = [sys.executable, "-m", "torchneuron_backend.probe", "--ops", "tanh", "exp", "nonzero"]
    command += [
        "special.airy_ai",
        "multinomial",
        "bernoulli",
        "--dtypes",
        "float32",
        "--samples",
        "1",
        "--resume",
        "--quiet",
    ]
    command += ["--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    assert not log_path(output).exists()
    return {entry.op: entry for entry in read(output)}


def test_each_operator_gets_its_answer(probed: dict[str, Entry]) -> None:
    assert probed["aten::exp"] == Entry("aten::exp", "float32", NATIVE)
    assert probed["aten::nonzero"].status == "data_dependent_shape"
    assert probed["aten::special_airy_ai"].status == "no_decomposition"


def test_random_operators_are_native_with_the_generators_state_alone(probed: dict[str, Entry]) -> None:
    assert probed["aten::bernoulli"].status == NATIVE
    assert probed["aten::multinomial"].status == "no_decomposition"
    assert "generator" in probed["aten::multinomial"].detail


def test_a_resumed_probe_keeps_what_it_had(probed: dict[str, Entry]) -> None:
    assert probed["aten::tanh"].detail == "from before"


def test_a_compiler_that_dies_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object, **__: object) -> str:
        import ctypes

        return ctypes.string_at(0).decode()

    monkeypatch.setattr(attempts, "to_stablehlo", die)
    outcome = attempt(single(aten.tanh.default, torch.ones(2)))
    assert outcome.status == "compiler_crash"
    assert "SIGSEGV" in outcome.detail


def test_a_compiler_that_hangs_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setattr(attempts, "to_stablehlo", lambda *_, **__: time.sleep(60))
    assert attempt(single(aten.tanh.default, torch.ones(2)), timeout_s=0.5).status == "timeout"


def test_a_wrong_result_is_found() -> None:
    expected = [torch.tensor([1.0, 2.0])]
    assert attempts.compare(aten.tanh.default, [torch.tensor([1.0, 2.0])], expected).status == NATIVE
    assert (
        attempts.compare(aten.tanh.default, [torch.tensor([1.0, 2.001])], expected).status == "wrong_result"
    )
    assert attempts.compare(aten.tanh.default, [torch.tensor([1, 2])], expected).status == "wrong_result"


def test_in_place_and_out_calls_are_collected_in_functional_form() -> None:
    assert functional_form(aten.add_.Tensor) is aten.add.Tensor
    assert functional_form(aten.pow_.Scalar) is aten.pow.Tensor_Scalar
    assert functional_form(aten.mul.out) is aten.mul.Tensor
    assert functional_form(aten.bernoulli_.float) is aten.bernoulli.p
    assert functional_form(aten._native_batch_norm_legit.default) is (
        aten._native_batch_norm_legit_functional.default
    )

    calls = Calls()
    collect_program(calls, lambda: torch.ones(3).add_(torch.full((3,), 2.0)))
    (call,) = calls.by_key[Key("aten::add.Tensor", "float32")]
    assert call.args[0].tolist() == [1.0, 1.0, 1.0]


def test_a_default_of_the_call_is_kept_where_the_functional_form_has_none() -> None:
    calls = Calls()
    collect_program(calls, lambda: torch.ones(3).bernoulli_())
    (call,) = calls.by_key[Key("aten::bernoulli.p", "float32")]
    assert call.kwargs["p"] == 0.5


def test_finish_names_what_only_a_dtype_lacks_and_adds_the_device_forms() -> None:
    table = finish(
        [
            Entry("aten::convolution", "float32", NATIVE),
            Entry("aten::convolution", "int64", "no_stablehlo_legalization", "x"),
            Entry("aten::qr", "float32", "no_stablehlo_legalization", "x"),
        ]
    )
    rows = {(entry.op, entry.dtype): entry.status for entry in table}
    assert rows["aten::convolution_overrideable", "float32"] == NATIVE
    assert rows["aten::convolution", "int64"] == "dtype"
    assert rows["aten::qr", "float32"] == "no_stablehlo_legalization"


def test_an_update_tries_what_is_named_and_keeps_the_rest() -> None:
    table = [Entry("aten::tanh", "float32", NATIVE), Entry("aten::exp", "float32", "timeout", "x")]

    def collected() -> Calls:
        calls = Calls()
        collect_program(calls, lambda: torch.ones(3).tanh().exp())
        return calls

    calls = collected()
    assert _narrow(calls, ["aten::tanh"], table) == table
    assert [key.op for key in calls.by_key if key.op != "aten::ones"] == ["aten::tanh"]
    calls = collected()
    _narrow(calls, [], table)
    assert "aten::tanh" not in {key.op for key in calls.by_key}
    assert "aten::exp" in {key.op for key in calls.by_key}
    tried = Entry("aten::exp", "float32", NATIVE)
    assert finish([*table, tried]) == [tried, table[0]]


def test_a_program_is_native_if_nothing_of_it_falls_back() -> None:
    exp, qr = Key("aten::exp", "float32"), Key("aten::qr", "float32")
    programs = [Ran({exp}), Ran({exp, qr}, {qr}), Ran({qr}, {qr}), Ran(), Ran({exp}, {qr}, {"(Error)"})]
    share = share_of_programs(programs)
    assert (share.native, share.total) == (2, 5)
    assert share.alone == {"aten::qr float32": 2}
    assert str(share) == "2 of 5 (40.0%)"


def test_what_a_program_does_on_the_device_is_read_off_its_counters() -> None:
    ran = Ran()
    x = torch.tensor([3.0, 1.0], device="neuron")
    run_on_device(lambda: (x.exp().view(2, 1).tolist(), torch.nonzero(x), x.double()), ran)
    assert ran.computed == {Key("aten::exp", "float32"), Key("aten::nonzero", "float32")}
    assert ran.missing == {"aten::nonzero float32"}
    run_on_device(lambda: x.to_sparse(), ran)
    assert ran.raised == {"(NotImplementedError on the device)"}


def test_an_entry_is_run_on_the_device_and_left_out_where_the_cpu_runs_none_of_it() -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    entries = {info.name: info for info in op_db}
    missing = {}
    for name in ("exp", "nonzero", "jiterator_unary", "to_sparse"):
        ran = _run_entry(entries[name], torch.float32, 2)
        missing[name] = None if ran is None else ran.missing
    assert missing == {
        "exp": set(),
        "nonzero": {"aten::nonzero float32"},
        "jiterator_unary": None,  # CUDA's own
        "to_sparse": {"(NotImplementedError on the device)"},
    }


def test_calls_are_kept_by_the_conditions_that_hold_of_them() -> None:
    calls = Calls()
    x, rows, mask = torch.arange(6.0), torch.tensor([2, 0]), torch.tensor([True, False] * 3)
    collect_program(calls, lambda: [x[rows + shift] for shift in range(3)] + [x[mask]])
    kept = calls.by_key[Key("aten::index.Tensor", "float32")]
    assert [held(call.args, call.kwargs)[0] == "integer_indices" for call in kept].count(False) == 1


def test_each_choice_of_an_operator_is_tried() -> None:
    calls = Calls()
    image, grid = torch.ones(1, 1, 4, 4), torch.zeros(1, 2, 2, 2)
    modes = ("bilinear", "nearest", "bicubic")

    def sampled() -> list[torch.Tensor]:
        # The first three alone would fill the room of calls that look alike.
        chosen = [*modes[:1] * 3, *modes[1:]]
        return [torch.nn.functional.grid_sample(image, grid, mode, align_corners=False) for mode in chosen]

    collect_program(calls, sampled)
    kept = calls.by_key[Key("aten::grid_sampler_2d", "float32")]
    assert sorted({call.args[2] for call in kept}) == [0, 1, 2]
    collect_program(calls, lambda: [image.div(2, rounding_mode=mode) for mode in ("floor", "trunc", None)])
    by_mode = [call.kwargs["rounding_mode"] for call in calls.by_key[Key("aten::div.Tensor_mode", "float32")]]
    assert {"floor", "trunc"} <= set(by_mode)


def _outcomes_of_indexing() -> list[Outcome]:
    x, rows, mask = torch.arange(6.0), torch.tensor([2, 0]), torch.tensor([True, False] * 3)
    by_rows, by_mask = (Call(aten.index.Tensor, (x, [index]), {}) for index in (rows, mask))
    return [measure([by_mask, by_rows]), measure([by_rows]), measure([by_mask])]


def _outcome_of_a_bool() -> Outcome:
    ones = torch.ones(3)
    return measure([Call(aten.equal.default, each, {}) for each in ((ones, ones), (ones, 2 * ones))])


@pytest.fixture(scope="module")
def fresh() -> Iterator[ProcessPoolExecutor]:
    """A process that has compiled nothing: one that has cannot fork children that compile."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        yield pool


def test_an_operator_may_be_native_on_a_condition(fresh: ProcessPoolExecutor) -> None:
    both, by_rows, by_mask = fresh.submit(_outcomes_of_indexing).result()
    assert (both.status, both.when) == (NATIVE, "integer_indices")
    assert "data_dependent_shape" in both.detail
    assert by_rows == Outcome(NATIVE)
    assert by_mask.status == "data_dependent_shape"


def test_a_bool_for_python_is_computed_as_a_tensor(fresh: ProcessPoolExecutor) -> None:
    assert fresh.submit(_outcome_of_a_bool).result() == Outcome(NATIVE)


def test_operators_that_only_read_are_not_collected() -> None:
    calls = Calls()
    collect_program(calls, lambda: (torch.ones(1).item(), torch.linalg.cholesky(torch.eye(2))))
    assert {key.op for key in calls.by_key} >= {"aten::linalg_cholesky_ex"}
    assert not {key.op for key in calls.by_key} & {"aten::_local_scalar_dense", "aten::_linalg_check_errors"}


def test_the_programs_of_the_probe_run() -> None:
    calls = Calls(dtypes=(torch.float32, torch.int64))
    collect_programs(calls, calls.dtypes)
    ops = set(calls.by_key)
    assert Key("aten::rsub.Scalar", "int64") in ops
    assert Key("aten::upsample_nearest2d_backward", "float32") in ops
    assert Key("aten::reflection_pad2d", "float32") in ops


def test_details_carry_nothing_of_this_run() -> None:
    assert tidy("died at 0x7f00aa in /some/where/file.py\n again") == "died at ADDRESS in file.py again"


def test_written_tables_read_back(tmp_path: Path) -> None:
    entries = [Entry("aten::a", "bool", NATIVE), Entry("aten::b", "int64", "dtype", "why")]
    write(tmp_path / "t.json", entries)
    entries.append(Entry("aten::c", "bool", NATIVE, "else dtype: why", "integer_indices"))
    write(tmp_path / "t.json", entries)
    assert [Entry(**row) for row in json.loads((tmp_path / "t.json").read_text())["entries"]] == entries


def test_the_table_of_the_package_is_sorted_unique_closed_and_of_these_versions() -> None:
    table = json.loads(TABLE.read_text())
    keys = [(row["op"], row["dtype"]) for row in table["entries"]]
    assert keys == sorted(keys)
    assert len(keys) == len(set(keys))
    assert {row["status"] for row in table["entries"]} <= set(STATUSES)
    assert {row["when"] for row in table["entries"] if "when" in row} <= set(CONDITIONS)
    assert all(row["status"] == NATIVE and row["detail"] for row in table["entries"] if "when" in row)
    assert all(row.get("detail") for row in table["entries"] if row["status"] != NATIVE)
    assert table["versions"]["torch"] == version("torch").partition("+")[0]
    assert table["versions"]["torch-mlir"] == version("torch-mlir")
    assert table["versions"]["jaxlib"] == version("jaxlib")
    assert TABLE.stat().st_size < 1_000_000


def test_the_table_of_the_package_has_what_transformers_need() -> None:
    native = {
        (row["op"], row["dtype"])
        for row in json.loads(TABLE.read_text())["entries"]
        if row["status"] == NATIVE
    }
    needed = [
        "addmm",
        "bmm",
        "mm",
        "_softmax",
        "native_layer_norm",
        "embedding",
        "gelu",
        "add.Tensor",
        "convolution",
    ]
    missing = [
        op for op in needed for dtype in ("float32", "bfloat16") if (f"aten::{op}", dtype) not in native
    ]
    assert missing == []


def test_random_operators_are_native_without_a_condition_and_tried_on_many_numbers() -> None:
    calls = Calls(dtypes=(torch.float32, torch.bfloat16))
    collect_programs(calls, calls.dtypes)
    entries = {Key(entry.op, entry.dtype): entry for entry in read(TABLE)}
    for overload in RANDOM:
        for dtype in ("float32", "bfloat16"):
            key = Key(operator_name(overload), dtype)
            most = max(numbers_drawn(overload, call.args, call.kwargs) for call in calls.by_key[key])
            assert most > 22_000, key
            assert (entries[key].status, entries[key].when) == (NATIVE, ""), key
