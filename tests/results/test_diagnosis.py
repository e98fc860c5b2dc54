"""Categories are told from what really is said; what merely resembles it tells nothing."""

from __future__ import annotations

import pytest
import torch

from results.diagnosis import category_of, first_line
from results.vocabulary import Category, Outcome

E = Outcome.FAILED_EXCEPTION


@pytest.mark.parametrize(
    ("outcome", "message", "category"),
    [
        (Outcome.FAILED_NUMERIC, "max abs error 0.5", Category.NUMERICS),
        (Outcome.CRASHED, "the process died in test: SIGSEGV", Category.CRASH),
        (Outcome.TIMED_OUT, "no end after 60 s", Category.SLOW),
        (Outcome.OUT_OF_MEMORY, "", Category.MEMORY),
        (E, "The neuron device does not support sparse tensors (COO, CSR): dense only", Category.SPARSE),
        (E, "The neuron device does not support the dtype complex128", Category.DTYPE),
        (E, '"add_stub" not implemented for \'ComplexHalf\'', Category.DTYPE),
        (E, "Could not run 'aten::mm' with arguments from the 'SparseCPU' backend. This", Category.SPARSE),
        (E, "The operator 'aten::foo' is not currently implemented for it.", Category.NO_NATIVE_LOWERING),
        (E, "Trying to use forward AD with _foo that does not support it", Category.FORWARD_AD),
        (E, "Tensor-likes are not close!\n\nMismatched elements: 1 / 2", Category.NUMERICS),
        (E, '"wanted" does not match "got"', Category.ERROR_MESSAGE),
        (E, "We said: The neuron device does not support sparse tensors", None),
        (E, "it needs sparse tensors", None),
        (E, "", None),
    ],
)  # fmt: skip
def test_what_a_failure_tells(outcome: Outcome, message: str, category: Category | None) -> None:
    assert category_of(outcome, message) is category


@pytest.mark.filterwarnings("ignore")
def test_what_the_device_really_says_is_recognised() -> None:
    ones = torch.ones(2, device="neuron")
    refused = {
        Category.SPARSE: lambda: ones.to_sparse(),
        Category.NESTED_TENSOR: lambda: torch.nested.nested_tensor([ones, ones]),
        Category.PER_CHANNEL_QUANTIZATION: lambda: torch.quantize_per_tensor(ones, 1.0, 0, torch.qint8),
        Category.FORWARD_AD: lambda: torch.func.jvp(torch.sin, (ones,), (ones,)),
        Category.CUDA_GRAPHS: lambda: torch.neuron.NeuronGraph,
    }
    told = {}
    for category, call in refused.items():
        with pytest.raises((NotImplementedError, AttributeError)) as caught:
            call()
        told[category] = (category_of(E, str(caught.value)), str(caught.value)[:80])
    assert {category: found for category, (found, _) in told.items()} == {c: c for c in refused}, told


def test_a_failure_in_one_line() -> None:
    assert first_line("torch.OutOfMemoryError", " a\tb\x1b[31m \nmore") == "OutOfMemoryError: a b [31m"
    assert first_line("", "") == ""
