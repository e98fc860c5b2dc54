"""An operator that no compiler will ever lower: it computes ``sinh``, and has a gradient of the same kind."""

from __future__ import annotations

import torch


@torch.library.custom_op("torchneuron_test::opaque", mutates_args=())
def opaque(x: torch.Tensor) -> torch.Tensor:
    return x.sinh()


@torch.library.custom_op("torchneuron_test::opaque_gradient", mutates_args=())
def opaque_gradient(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return gradient * x.cosh()


@opaque.register_fake
def _like(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@opaque_gradient.register_fake
def _like_gradient(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(gradient)


opaque.register_autograd(
    lambda ctx, gradient: opaque_gradient(gradient, ctx.saved_tensors[0]),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
)

NAME = "torchneuron_test::opaque"
GRADIENT_NAME = "torchneuron_test::opaque_gradient"
