"""How long XLA and IREE take to compile the same StableHLO: the reason the simulator uses XLA.

    python benchmarks/compilers.py            # XLA alone
    pip install iree-base-compiler            # then both

The programs are what the compile route hands to its compiler: the forward graph of a tiny BERT,
and single operators as the eager engine would compile them. Median of three, one process.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from transformers import BertConfig, BertModel

from torchneuron_backend.compiler import lowering
from torchneuron_backend.compiler.executable import Executable

REPEATS = 3
HOST = "--iree-llvmcpu-target-cpu=host"


def programs() -> dict[str, str]:
    """StableHLO text by name."""
    config = BertConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128, vocab_size=300
    )
    bert = BertModel(config).eval()
    ids = torch.randint(0, 300, (2, 16))
    x = torch.randn(64, 64)
    return {
        "tiny BERT forward": lower(lambda ids: bert(input_ids=ids).last_hidden_state, ids),
        "aten::mm": lower(torch.mm, x, x),
        "aten::_softmax": lower(lambda x: torch.softmax(x, -1), x),
        "aten::add.Tensor": lower(torch.add, x, x),
    }


def lower(function: Callable[..., torch.Tensor], *arguments: torch.Tensor) -> str:
    """Trace a function and lower it as the backend does."""
    with torch.no_grad():
        return lowering.lower(make_fx(function)(*arguments))


def xla(program: str) -> None:
    """Compile with the compiler of the simulator."""
    Executable(program)


def iree(program: str) -> None:
    """Compile with IREE for the host's processor."""
    from iree.compiler.tools import compile_str

    compile_str(program, input_type="stablehlo", target_backends=["llvm-cpu"], extra_args=[HOST])


def main() -> None:
    """Print milliseconds by program and compiler."""
    compilers = {"XLA": xla}
    if importlib.util.find_spec("iree") is not None:
        compilers["IREE"] = iree
    print(f"{'program':20}" + "".join(f"{name + ' ms':>12}" for name in compilers))
    for name, program in programs().items():
        row = f"{name:20}"
        for compile_program in compilers.values():
            times = []
            for _ in range(REPEATS):
                started = time.perf_counter()
                compile_program(program)
                times.append(time.perf_counter() - started)
            row += f"{statistics.median(times) * 1000:12.1f}"
        print(row)


if __name__ == "__main__":
    main()
