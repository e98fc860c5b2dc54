"""The lowering table as data: what is read of it, and what is said of one that cannot be read."""

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
