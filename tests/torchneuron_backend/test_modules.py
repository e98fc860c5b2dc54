"""Modules on the device: ties, identity, serialization, layers that torch treats specially."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn

import torchneuron_backend


class Tied(nn.Module):
    """An embedding and a projection that share one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.project = nn.Linear(4, 5, bias=False)
        self.project.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.project(self.embed(tokens))


def test_tied_weights_stay_tied() -> None:
    model = Tied()
    weight = model.embed.weight
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model.to("neuron")
    assert model.embed.weight is model.project.weight is weight
    assert isinstance(weight, nn.Parameter)
    assert weight.device.type == "neuron"
    before = weight.tolist()
    model(torch.tensor([1, 2], device="neuron")).sum().backward()
    optimizer.step()  # made before the move, and still holding the parameters
    assert weight.tolist() != before
    assert model.cpu().embed.weight is model.project.weight is weight
    assert weight.device.type == "cpu"


def test_gradients_and_hooks_move_with_their_parameter() -> None:
    layer = nn.Linear(3, 3)
    layer(torch.ones(1, 3)).sum().backward()
    on_cpu = layer.weight.grad.clone()
    seen = []
    layer.weight.register_hook(lambda gradient: seen.append(gradient.device.type))
    layer.to("neuron")
    assert layer.weight.grad.device.type == "neuron"
    layer(torch.ones(1, 3, device="neuron")).sum().backward()
    assert layer.cpu().weight.grad.equal(2 * on_cpu)
    assert seen == ["neuron"]


def test_dtype_and_device_change_together() -> None:
    layer = nn.Linear(3, 3).to("neuron", torch.bfloat16)
    assert layer(torch.ones(1, 3, device="neuron", dtype=torch.bfloat16)).dtype == torch.bfloat16
    assert layer.float().to("neuron:1").weight.device == torch.device("neuron:1")


@pytest.mark.parametrize(
    ("map_location", "device"), [(None, "neuron:1"), ("cpu", "cpu"), ("neuron:0", "neuron:0")]
)
def test_saved_tensors_load_anywhere_with_their_sharing(map_location: str | None, device: str) -> None:
    tensor = torch.arange(4.0, device="neuron:1")
    file = io.BytesIO()
    torch.save({"all": tensor, "tail": tensor[2:]}, file)
    file.seek(0)
    loaded = torch.load(file, map_location=map_location)
    assert loaded["all"].device == torch.device(device)
    assert loaded["all"].tolist() == [0, 1, 2, 3]
    loaded["all"][2] = 9
    assert loaded["tail"].tolist() == [9, 3]


def test_host_tensors_load_onto_the_device() -> None:
    file = io.BytesIO()
    torch.save(nn.Linear(2, 2).state_dict(), file)
    file.seek(0)
    state = torch.load(file, map_location="neuron")
    assert {value.device for value in state.values()} == {torch.device("neuron:0")}
    nn.Linear(2, 2).load_state_dict(state)


def test_deepcopy_and_pickle_keep_device_and_ties() -> None:
    model = Tied().to("neuron:1")
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.embed.weight is other.project.weight
        assert other.embed.weight is not model.embed.weight
        assert other.embed.weight.device == torch.device("neuron:1")
        assert other.embed.weight.cpu().equal(model.embed.weight.cpu())


def both(module: nn.Module, shape: tuple[int, ...]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Output and gradients (input first) of a module on the CPU and on the device, all on the CPU."""
    results = []
    source = torch.randn(shape)
    for device in ("cpu", "neuron"):
        there = copy.deepcopy(module).to(device)
        value = source.detach().to(device).requires_grad_()
        out = there(value)
        out = out[0] if isinstance(out, tuple) else out
        out.pow(2).sum().backward()
        gradients = [value.grad, *(p.grad for p in there.parameters())]
        results.append([out.detach().cpu(), *(g.cpu() for g in gradients)])
    return results[0], results[1]


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.Conv1d(3, 6, 3, groups=3), (2, 3, 9)),
        (nn.Conv2d(3, 4, 3, stride=2, padding=1), (2, 3, 8, 8)),
        (nn.Conv3d(2, 3, 2, dilation=2), (1, 2, 5, 5, 5)),
        (nn.ConvTranspose2d(3, 4, 3, output_padding=1, stride=2), (2, 3, 4, 4)),
    ],
    ids=["conv1d", "conv2d", "conv3d", "transposed"],
)
def test_convolutions_equal_the_cpu(module: nn.Module, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    on_cpu, on_device = both(module, shape)
    assert all(a.equal(b) for a, b in zip(on_cpu, on_device, strict=True))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_equal_the_cpu_within_rounding(kind: type[nn.RNNBase]) -> None:
    # torch sends every PrivateUse1 device to fused cells, which add the biases in another order than the CPU.
    torch.manual_seed(0)
    on_cpu, on_device = both(kind(4, 5, num_layers=2, bidirectional=True), (6, 2, 4))
    for a, b in zip(on_cpu, on_device, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)


def test_packed_sequences_work() -> None:
    torch.manual_seed(0)
    layer = nn.LSTM(3, 4)
    sequences = [torch.randn(length, 3) for length in (5, 3)]
    outputs = []
    for device in ("cpu", "neuron"):
        packed = nn.utils.rnn.pack_sequence([s.to(device) for s in sequences])
        outputs.append(copy.deepcopy(layer).to(device)(packed)[0].data.cpu())
    torch.testing.assert_close(outputs[1], outputs[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batch_norm_updates_its_statistics_on_either_route(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layer = nn.BatchNorm1d(3).to(dtype)
    on_device = copy.deepcopy(layer).to("neuron")
    batch = torch.randn(5, 3, dtype=dtype)
    layer(batch)
    on_device(batch.to("neuron"))
    assert on_device.running_mean.cpu().equal(layer.running_mean)
    assert on_device.running_var.cpu().equal(layer.running_var)
    assert on_device.num_batches_tracked.item() == 1


@pytest.mark.parametrize(
    "options", [{}, {"foreach": True}, {"fused": True}], ids=["loop", "foreach", "fused"]
)
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_optimizers_equal_the_cpu(optimizer: type[torch.optim.Optimizer], options: dict[str, bool]) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(4, 4)
    batch = torch.randn(3, 4)
    results = []
    for device in ("cpu", "neuron"):
        there = copy.deepcopy(layer).to(device)
        steps = optimizer(there.parameters(), lr=0.1, **options)
        for _ in range(3):
            steps.zero_grad()
            there(batch.to(device)).pow(2).sum().backward()
            nn.utils.clip_grad_norm_(there.parameters(), 1.0)
            steps.step()
        results.append([p.detach().cpu() for p in there.parameters()])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-6, atol=1e-6)


def test_attention_and_checkpointing_run() -> None:
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    batch = torch.randn(2, 4, 8)
    outputs = []
    for device in ("cpu", "neuron"):
        there = copy.deepcopy(layer).to(device)
        out = checkpoint(there, batch.to(device), use_reentrant=False)
        out.sum().backward()
        outputs.append([out.detach().cpu(), *(p.grad.cpu() for p in there.parameters())])
    for a, b in zip(*outputs, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)


def test_eval_mode_encoder_takes_the_fast_path_or_not_and_agrees() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    batch = torch.randn(2, 4, 8)
    with torch.inference_mode():
        on_cpu = layer(batch)
        torchneuron_backend.reset_op_counters()
        on_device = layer.to("neuron")(batch.to("neuron")).cpu()
    torch.testing.assert_close(on_device, on_cpu, rtol=1e-4, atol=1e-5)
