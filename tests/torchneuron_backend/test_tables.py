"""The lowering table as data: what is read of it, and what is said of one that cannot be read."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from torchneuron_backend import tables


def test_a_missing_table_makes_nothing_native_so_that_the_probe_can_run(tmp_path: Path) -> None:
    assert tables.native_table(tmp_path / "none.json") == ([], [])


@pytest.mark.parametrize(("text", "words"), [("{", "is not JSON"), ("[]", "no list of entries")])
def test_a_damaged_table_is_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "lowerings.json"
    path.write_text(text)
    with pytest.raises(RuntimeError, match=words):
        tables.read_table(path)


def test_a_dtype_is_a_bit(tmp_path: Path) -> None:
    path = tmp_path / "lowerings.json"
    path.write_text(
        '{"entries": [{"op": "aten::mm", "dtype": "float32", "status": "native"},'
        ' {"op": "aten::mm", "dtype": "int64", "status": "dtype"},'
        ' {"op": "aten::index.Tensor", "dtype": "bool", "status": "native", "when": "integer_indices"},'
        ' {"op": "aten::lgamma", "dtype": "float32", "status": "no_decomposition"}]}'
    )
    numbers = tables.dtype_numbers()
    assert tables.native_table(path) == (
        [("aten::mm", 1 << numbers["float32"])],
        [("aten::index.Tensor", 1 << numbers["bool"], "integer_indices")],
    )


def _go_without(names: str) -> subprocess.CompletedProcess[str]:
    code = (
        "import torch, torchneuron_backend as t\n"
        "x = torch.ones(3, device='neuron'); t.reset_op_counters(); x.cumsum(0); x.mul(x); x.cumsum_(0)\n"
        "print(sorted((row['op'], row['route']) for row in t.op_counters()))"
    )
    environment = {**os.environ, tables.WITHOUT: names}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )


def test_a_process_can_go_without_a_lowering_and_its_variants() -> None:
    with_all, without = _go_without(""), _go_without(" aten::cumsum ; ")
    assert "aten::cumsum" in with_all.stdout, with_all.stderr
    for op in ("aten::cumsum", "aten::cumsum_"):
        assert f"('{op}', 'native')" in with_all.stdout
        assert f"('{op}', 'fallback')" in without.stdout
    assert "('aten::mul.Tensor', 'native')" in without.stdout


def test_only_what_is_there_can_be_gone_without() -> None:
    done = _go_without("aten::cumsun")
    assert "TORCHNEURON_WITHOUT: the lowering table has no lowering of 'aten::cumsun'" in done.stderr
