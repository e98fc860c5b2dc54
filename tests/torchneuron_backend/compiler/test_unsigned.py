"""Unsigned bytes in compiled code: compared as what they are, and with no sign to take away."""

from __future__ import annotations

import pytest
import torch

X = torch.tensor([7, 5, 200, 0], dtype=torch.uint8)
Y = torch.tensor([8, 5, 20, 130], dtype=torch.uint8)


def compiled(function, *inputs):
    torch._dynamo.reset()
    moved = (each.to("neuron") for each in inputs)
    return torch.compile(function, backend="neuron", fullgraph=True)(*moved).cpu()


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: torch.stack([x < y, x <= y, x > y, x >= y, x == y, x != y, x < 100, x != 5]),
        lambda x, y: torch.stack([x.sort().values, x.topk(4).values, torch.minimum(x, y), x.clamp(6, 150)]),
        lambda x, y: torch.stack([x.argmax(), x.argmin(), x.cummax(0).indices[-1]]),
        lambda x, y: torch.stack(
            [torch.remainder(y, x + 1), torch.remainder(y, 3), torch.remainder(3, x + 1)]
        ),
        lambda x, y: torch.stack([x.abs(), x.sign(), torch.gcd(x, y), x >> 1, x << 2, x >> (y & 3)]),
    ],
)
def test_unsigned_bytes(function):
    assert torch.equal(compiled(function, X, Y), function(X, Y))
