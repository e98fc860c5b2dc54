"""Saving and loading: torch.save in its formats, map_location, pickles, safetensors."""

import io
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file


def saved(thing: Any, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(thing, file, **options)
    file.seek(0)
    return file


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize(
    ("map_location", "device"),
    [
        (None, "neuron:1"),
        ("cpu", "cpu"),
        ("neuron", "neuron:0"),
        (torch.device("neuron", 0), "neuron:0"),
        ({"neuron:1": "neuron:0"}, "neuron:0"),
        (lambda storage, location: storage.neuron(int(location[-1]) - 1), "neuron:0"),
        ("meta", "meta"),
    ],
    ids=["as saved", "cpu", "neuron", "device", "mapping", "function", "meta"],
)
def test_a_tensor_is_loaded_where_one_says(zipped: bool, map_location: Any, device: str) -> None:
    tensor = torch.arange(6.0, device="neuron:1").view(2, 3).t()
    file = saved(tensor, _use_new_zipfile_serialization=zipped)
    loaded = torch.load(file, map_location=map_location)
    assert (loaded.device, loaded.shape, loaded.stride()) == (
        torch.device(device),
        tensor.shape,
        tensor.stride(),
    )
    if device != "meta":
        assert loaded.tolist() == tensor.tolist()


def test_views_share_memory_and_ties_stay_tied_after_loading() -> None:
    base = torch.arange(6.0, device="neuron")
    loaded = torch.load(saved({"base": base, "part": base[2:4], "again": base}))
    loaded["part"].fill_(9)
    assert loaded["base"].tolist() == [0, 1, 9, 9, 4, 5]
    assert loaded["again"] is loaded["base"] or loaded["again"].is_set_to(loaded["base"])


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.bool, torch.complex64], ids=str
)
def test_every_dtype_arrives_bit_for_bit(dtype: torch.dtype) -> None:
    tensor = torch.arange(5, device="neuron").to(dtype)
    assert torch.load(saved(tensor)).equal(tensor)


def test_special_tensors() -> None:
    parameter = torch.nn.Parameter(torch.ones(2, device="neuron:1"))
    loaded = torch.load(
        saved(
            {
                "parameter": parameter,
                "empty": torch.empty(0, 3, device="neuron"),
                "conj": torch.tensor([1 + 2j], device="neuron").conj(),
            }
        )
    )
    assert isinstance(loaded["parameter"], torch.nn.Parameter)
    assert loaded["parameter"].device == torch.device("neuron:1")
    assert (loaded["empty"].shape, loaded["empty"].device) == ((0, 3), torch.device("neuron:0"))
    assert loaded["conj"].tolist() == [1 - 2j]


def test_a_device_that_is_not_there_is_named() -> None:
    file = saved(torch.ones(1, device="neuron:1"))
    with pytest.raises(RuntimeError, match=r"on NEURON device 5 but torch\.neuron\.device_count\(\) is 2"):
        torch.load(file, map_location="neuron:5")


def test_a_mapped_file_is_copied_to_the_device(tmp_path: Path) -> None:
    path = tmp_path / "tensor.pt"
    torch.save(torch.arange(4.0, device="neuron"), path)
    assert torch.load(path, mmap=True).tolist() == [0, 1, 2, 3]
    assert torch.load(path, mmap=True, map_location="cpu").device == torch.device("cpu")


def test_a_file_without_data_has_the_shapes(tmp_path: Path) -> None:
    path = tmp_path / "tensor.pt"
    with torch.serialization.skip_data():
        torch.save(torch.ones(3, 2, device="neuron:1"), path)
    loaded = torch.load(path)
    assert (loaded.shape, loaded.device) == ((3, 2), torch.device("neuron:1"))


def test_a_module_and_its_optimizer() -> None:
    layer = torch.nn.Linear(2, 2, device="neuron")
    steps = torch.optim.Adam(layer.parameters())
    layer(torch.ones(1, 2, device="neuron")).sum().backward()
    steps.step()
    loaded = torch.load(saved([layer.state_dict(), steps.state_dict()]), map_location="cpu")
    on_host = torch.nn.Linear(2, 2)
    on_host.load_state_dict(loaded[0])
    again = torch.optim.Adam(on_host.parameters())
    again.load_state_dict(loaded[1])
    assert on_host.weight.equal(layer.weight.cpu())
    assert again.state[on_host.weight]["exp_avg"].equal(steps.state[layer.weight]["exp_avg"].cpu())


def test_storages_have_a_location() -> None:
    for index in range(2):
        made = torch.UntypedStorage(4, device=f"neuron:{index}")
        assert torch.serialization.location_tag(made) == f"neuron:{index}"
    host = torch.ones(2).untyped_storage()
    restored = torch.serialization.default_restore_location(host, "neuron:1")
    assert (restored.device, restored.tolist()) == (torch.device("neuron:1"), host.tolist())


def test_an_ordinary_pickle_keeps_the_device() -> None:
    tensor = torch.arange(3.0, device="neuron:1", requires_grad=True)
    loaded = pickle.loads(pickle.dumps(tensor))
    assert (loaded.device, loaded.requires_grad, loaded.tolist()) == (tensor.device, True, [0, 1, 2])


def test_safetensors_are_written_from_the_device_and_read_on_the_host(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    weights = {
        "a": torch.arange(4.0, device="neuron"),
        "b": torch.ones(2, 2, dtype=torch.bfloat16, device="neuron:1"),
    }
    save_file(weights, path)
    loaded = load_file(path)
    assert {name: tensor.device.type for name, tensor in loaded.items()} == {"a": "cpu", "b": "cpu"}
    assert all(loaded[name].equal(weights[name].cpu()) for name in weights)
    layer = torch.nn.ParameterDict({name: torch.zeros_like(tensor) for name, tensor in weights.items()})
    layer.load_state_dict(loaded)
    assert all(layer[name].equal(weights[name]) for name in weights)
