"""Which dtypes the device computes in, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch.nn import functional

from suites.claims.checks import RefutedError, numbers, require, require_equal
from suites.claims.claim import Scope, Source, Subject, Topic

topic = Topic("dtypes")


def _float_works(subject: Subject, dtype: torch.dtype) -> None:
    x, y = numbers(8, 16, dtype=dtype), numbers(16, 8, dtype=dtype, seed=1)

    def compute(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [x @ y, x + y.t(), x * y.t(), torch.softmax(x, -1), x.sum(0), x > 0, x.relu()]

    require_equal(subject, compute(x.to(subject.name), y.to(subject.name)), compute(x, y), "result")


@topic.claim("bfloat16 is supported.", Source.DOCUMENTATION, Source.LAUNCH_POST, scope=Scope.ANY)
def bfloat16(subject: Subject) -> None:
    _float_works(subject, torch.bfloat16)


@topic.claim("float32 is supported.", Source.DOCUMENTATION, Source.LAUNCH_POST, scope=Scope.ANY)
def float32(subject: Subject) -> None:
    _float_works(subject, torch.float32)


@topic.claim("float16 is supported.", Source.DOCUMENTATION, Source.LAUNCH_POST, scope=Scope.ANY)
def float16(subject: Subject) -> None:
    _float_works(subject, torch.float16)


@topic.claim("Integers are supported.", Source.DOCUMENTATION, Source.LAUNCH_POST, scope=Scope.ANY)
def integers(subject: Subject) -> None:
    def compute(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [x + y, x * y, x - y, x // y, x % y, x < y, x.sum(), x.max(), torch.where(x < y, x, y)]

    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        x, y = (torch.arange(12, dtype=dtype).reshape(3, 4) % 7 + first for first in (1, 2))
        actual = compute(x.to(subject.name), y.to(subject.name))
        require_equal(subject, actual, compute(x, y), f"{dtype} result")


@topic.claim("bool is supported.", Source.DOCUMENTATION, Source.LAUNCH_POST, scope=Scope.ANY)
def boolean(subject: Subject) -> None:
    def compute(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [x & y, x | y, x ^ y, ~x, x.any(0), x.all(0), x.sum(0), torch.where(x, 1, 2)]

    x, y = numbers(4, 4) > 0, numbers(4, 4, seed=1) > 0
    require_equal(subject, compute(x.to(subject.name), y.to(subject.name)), compute(x, y), "result")


@topic.claim(
    "Complex numbers work, decomposed in the framework.",
    Source.DOCUMENTATION,
    Source.LAUNCH_POST,
    scope=Scope.ANY,
)
def complex_numbers(subject: Subject) -> None:
    x, y = (torch.complex(numbers(4, seed=seed), numbers(4, seed=seed + 1)) for seed in (0, 2))
    actual = _complex(x.to(subject.name), y.to(subject.name))
    require_equal(subject, actual, _complex(x, y), "result")


@topic.claim(
    "Complex numbers inside a compiled graph are decomposed in the framework, as the compiler has none.",
    Source.DOCUMENTATION,
    Source.LAUNCH_POST,
)
def complex_numbers_compiled(subject: Subject) -> None:
    def rotate(parts: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        turned = torch.view_as_complex(parts) * torch.polar(torch.ones_like(angles), angles)
        return torch.view_as_real(turned)

    parts, angles = numbers(6, 2), numbers(6, seed=1)
    compiled = torch.compile(rotate, backend=subject.name, fullgraph=True)
    actual = compiled(parts.to(subject.name), angles.to(subject.name))
    require_equal(subject, actual, rotate(parts, angles), "the rotated pairs")


def _complex(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    return [x * y, x + y, x.abs(), x.conj().resolve_conj(), torch.view_as_real(x)]


@topic.claim(
    "int64 is computed in 32 bits and cast back: 2^31 - 1 and 1 do not add up to 2^31.", Source.USERS
)
def int64_in_32_bits(subject: Subject) -> None:
    total = (torch.tensor([2**31 - 1], device=subject.name) + 1).item()
    require(total != 2**31, f"the sum is {total}: exact")


@topic.claim("float64 is computed in 32 bits and cast back: 1 and 2^-40 add up to 1.", Source.USERS)
def float64_in_32_bits(subject: Subject) -> None:
    x = torch.tensor([1.0], dtype=torch.float64, device=subject.name)
    total = (x + 2.0**-40).item()
    require(total == 1.0, f"the sum is 1 + {total - 1:.3g}: exact")


_LOWER: Mapping[str, Callable[..., torch.Tensor]] = {
    "mm": lambda x, y: torch.mm(x, y),
    "matmul": lambda x, y: x @ y,
    "addmm": lambda x, y: torch.addmm(x, x, y),
    "bmm": lambda x, y: torch.bmm(x[None], y[None]),
    "baddbmm": lambda x, y: torch.baddbmm(x[None], x[None], y[None]),
    "mv": lambda x, y: torch.mv(x, y[0]),
    "linear": lambda x, y: functional.linear(x, y),
    "conv1d": lambda x, y: functional.conv1d(x[None], y[:, :, None]),
    "prelu": lambda x, y: functional.prelu(x, y[0, :1]),
    "scaled_dot_product_attention": lambda x, y: functional.scaled_dot_product_attention(
        x[None], y[None], x[None]
    ),
}
_FLOAT32: Mapping[str, Callable[..., torch.Tensor]] = {
    "exp": lambda x, y: x.exp(),
    "log": lambda x, y: x.log(),
    "pow": lambda x, y: x.pow(y),
    "rsqrt": lambda x, y: x.rsqrt(),
    "sum": lambda x, y: x.sum(),
    "prod": lambda x, y: x.prod(),
    "cumsum": lambda x, y: x.cumsum(0),
    "softmax": lambda x, y: torch.softmax(x, -1),
    "log_softmax": lambda x, y: torch.log_softmax(x, -1),
    "layer_norm": lambda x, y: functional.layer_norm(x, (8,)),
    "group_norm": lambda x, y: functional.group_norm(x, 2),
    "mse_loss": lambda x, y: functional.mse_loss(x, y),
    "l1_loss": lambda x, y: functional.l1_loss(x, y),
    "cosine_similarity": lambda x, y: functional.cosine_similarity(x, y),
    "norm": lambda x, y: torch.norm(x),
}
_WIDEST: Mapping[str, Callable[..., torch.Tensor]] = {
    "addcmul": lambda x, y: torch.addcmul(x, x, y),
    "atan2": lambda x, y: torch.atan2(x, y),
    "cat": lambda x, y: torch.cat([x, y]),
    "stack": lambda x, y: torch.stack([x, y]),
}


@topic.claim('torch.autocast(device_type="neuron") follows the lists of CUDA.', Source.DOCUMENTATION)
def autocast_lists(subject: Subject) -> None:
    wide = (numbers(8, 8).abs() + 0.5).to(subject.name)
    narrow = wide.to(torch.bfloat16)
    with torch.autocast(device_type=subject.name, dtype=torch.bfloat16):
        results = {name: (call(wide, wide).dtype, torch.bfloat16) for name, call in _LOWER.items()}
        results |= {name: (call(narrow, narrow).dtype, torch.float32) for name, call in _FLOAT32.items()}
        results |= {name: (call(wide, narrow).dtype, torch.float32) for name, call in _WIDEST.items()}
        results["relu"] = (narrow.relu().dtype, torch.bfloat16)  # on no list
        _require_banned(wide)
    wrong = [
        f"{name} gave {seen}, not {wanted}" for name, (seen, wanted) in results.items() if seen != wanted
    ]
    require(not wrong, "; ".join(wrong))


def _require_banned(x: torch.Tensor) -> None:
    try:
        functional.binary_cross_entropy(torch.sigmoid(x), torch.sigmoid(x))
    except RuntimeError as error:
        require("autocast" in str(error), f"binary_cross_entropy raised {error}")
        return
    raise RefutedError("binary_cross_entropy, which CUDA's lists ban, was not refused")
