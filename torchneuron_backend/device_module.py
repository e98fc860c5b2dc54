"""``torch.neuron``: the device's own module, with the names torch's other device modules have."""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch

from torchneuron_backend import _C
from torchneuron_backend.observe import clear_op_tracking as clear_op_tracking
from torchneuron_backend.observe import get_executed_ops as get_executed_ops
from torchneuron_backend.observe import get_fallback_ops as get_fallback_ops

_NAME = "neuron"
DeviceLike = torch.device | int | str | None

# Torch core asks for these two while it starts, before there is anything to initialise.
_is_compiled = True


def _index(device: DeviceLike = None) -> int:
    """The index that ``device`` names; the current device when it names none."""
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    device = torch.device(device)
    if device.type != _NAME:
        raise ValueError(f"expected a neuron device, got {device}")
    return current_device() if device.index is None else device.index


# What torch.cuda has for graph capture, and this device documents that it has not.
_GRAPH_CAPTURE = {"CUDAGraph", "NeuronGraph", "Graph", "graph", "graphs", "graph_pool_handle"} | {
    "is_current_stream_capturing",
    "make_graphed_callables",
}


def __getattr__(name: str) -> Any:
    if name in _GRAPH_CAPTURE:
        raise AttributeError(
            f"torch.neuron.{name}: the neuron device does not support graph capture (CUDA graphs), because "
            "its runtime has no equivalent. torch.compile(backend='neuron') compiles a whole graph."
        )
    if name == "_initialized":  # what torch.utils.checkpoint asks before it saves the generators' states
        return is_initialized()
    if name == "default_generators":
        return tuple(default_generator(index) for index in range(device_count()))
    raise AttributeError(f"module 'torch.neuron' has no attribute {name!r}")


# Devices


def is_available() -> bool:
    """Whether there is at least one neuron device."""
    return device_count() > 0


def device_count() -> int:
    """The number of devices: what NEURON_RT_VISIBLE_CORES lists, or NEURON_RT_NUM_CORES; else 2."""
    return _C.device_count()


def current_device() -> int:
    """The index of this thread's current device."""
    return _C.current_device()


def set_device(device: DeviceLike) -> None:
    """Make ``device`` this thread's current device. Raises RuntimeError when there is none such."""
    _C.set_device(_index(device))


def init() -> None:
    """Does nothing: the device is ready when it is first used."""


def is_initialized() -> bool:
    """Whether this process has used the device."""
    return _C.is_initialized()


def _is_in_bad_fork() -> bool:
    return _C.is_in_bad_fork()


def synchronize(device: DeviceLike = None) -> None:
    """Wait for everything queued on ``device``. Raises the error of an op that failed late, if one did."""
    torch.accelerator.synchronize(_index(device))


class device:
    """Context manager: ``device`` is current inside. -1 or None leaves the current one alone."""

    def __init__(self, device: DeviceLike) -> None:
        self.idx = -1 if device is None else _index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = current_device()
        if self.idx >= 0:
            _C.set_device(self.idx)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _C.set_device(self.prev_idx)


class device_of(device):
    """Context manager: the device of a tensor is current inside; nothing happens for a tensor elsewhere."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(tensor.device if tensor.device.type == _NAME else None)


@dataclass(frozen=True)
class DeviceProperties:
    """What a device is: its name, its memory in bytes, and that it is simulated."""

    name: str
    total_memory: int
    simulated: bool = True


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    """The properties of a device. Raises RuntimeError when there is none such."""
    return DeviceProperties(
        name="Trainium (simulated NeuronCore)", total_memory=_C.memory_limit(_index(device))
    )


def get_device_name(device: DeviceLike = None) -> str:
    """The name of a device."""
    return get_device_properties(device).name


def get_device_capability(device: DeviceLike = None) -> dict[str, Any]:
    """The dtypes a device supports, as torch.accelerator gives them."""
    return torch.accelerator.get_device_capability(_index(device))


def is_bf16_supported() -> bool:
    """True: bfloat16 is the native number of a NeuronCore."""
    return True


def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Whether one device can copy from the other: any two can. Raises RuntimeError for none such."""
    get_device_properties(peer_device)
    get_device_properties(device)
    return _index(device) != _index(peer_device)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes ``torch.autocast("neuron")`` can cast to."""
    return [torch.bfloat16, torch.float16]


# Streams and events


class Stream(torch.Stream):
    """A stream of a neuron device. All streams of a device share its one hardware queue.

    Of the work that can run, the queue takes that of the stream with the smallest ``priority`` (see
    `priority_range`; one out of range becomes the nearest in it), and among equals what was launched first.
    """

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **kwargs: Any) -> "Stream":
        if "stream_id" in kwargs:
            return super().__new__(cls, **kwargs)
        return super().__new__(cls, device=torch.device(_NAME, _index(device)), priority=priority)

    @property
    def priority(self) -> int:
        """The stream's priority: 0 by default, less for one that comes first."""
        return _C.stream_priority(self.stream_id)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The least priority and the greatest, which is the smaller number."""
        return 0, -3


class _EventType(type):
    """Makes every event of a neuron device an instance of `Event`."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch.Event) and instance.device.type == _NAME


class Event(torch.Event, metaclass=_EventType):
    """A point in a stream's work, reached when all that was launched there before it is done.

    ``elapsed_time`` gives the milliseconds between two such moments. Calling the class makes a plain
    `torch.Event`, because torch measures the time between no others.
    """

    def __new__(  # type: ignore[misc]
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> torch.Event:
        if interprocess:
            raise NotImplementedError(
                "The neuron device does not support events shared between processes (interprocess=True): "
                "its queue belongs to the process that uses it. Synchronise, then tell the other process."
            )
        return torch.Event(_NAME, enable_timing=enable_timing, blocking=blocking)


def current_stream(device: DeviceLike = None) -> Stream:
    """This thread's current stream of ``device``."""
    current = torch.accelerator.current_stream(_index(device))
    return Stream(stream_id=current.stream_id, device_index=current.device_index, device_type=_C_DEVICE_TYPE)


def default_stream(device: DeviceLike = None) -> Stream:
    """The stream that is current when no other has been chosen."""
    return Stream(stream_id=0, device_index=_index(device), device_type=_C_DEVICE_TYPE)


# The number of PrivateUse1 among c10::DeviceType, by which torch.Stream names a device type.
_C_DEVICE_TYPE = 20


def set_stream(stream: torch.Stream) -> None:
    """Make ``stream`` this thread's current stream of its device."""
    torch.accelerator.set_stream(stream)


def stream(stream: torch.Stream | None) -> AbstractContextManager[Any]:
    """Context manager: ``stream`` is current inside, and its device. None changes nothing."""
    return nullcontext() if stream is None else stream


# Memory


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """The allocator's statistics, with the keys of torch.accelerator.memory_stats."""
    return dict(torch.accelerator.memory_stats(_index(device)))


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes in tensors."""
    return torch.accelerator.memory_allocated(_index(device))


def max_memory_allocated(device: DeviceLike = None) -> int:
    """The most bytes there have been in tensors since the last reset."""
    return torch.accelerator.max_memory_allocated(_index(device))


def memory_reserved(device: DeviceLike = None) -> int:
    """Bytes in tensors and in the allocator's cache."""
    return torch.accelerator.memory_reserved(_index(device))


def max_memory_reserved(device: DeviceLike = None) -> int:
    """The most bytes there have been in tensors and cache since the last reset."""
    return torch.accelerator.max_memory_reserved(_index(device))


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Let the peaks start again from now."""
    torch.accelerator.reset_peak_memory_stats(_index(device))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Let the sums start again from zero."""
    torch.accelerator.reset_accumulated_memory_stats(_index(device))


def empty_cache() -> None:
    """Give cached memory back to the system."""
    torch.accelerator.empty_cache()


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Free bytes and total bytes of a device."""
    free, total = torch.accelerator.get_memory_info(_index(device))
    return free, total


def set_memory_limit(limit_bytes: int, device: DeviceLike = None) -> None:
    """How many bytes a device may hold; 0 restores the default."""
    _C.set_memory_limit(_index(device), limit_bytes)


# Random numbers


def default_generator(device: DeviceLike = None) -> torch.Generator:
    """The generator that random ops on ``device`` draw from."""
    return _C.default_generator(_index(device))


def manual_seed(seed: int) -> None:
    """Seed the current device's generator; the same seed gives the same numbers as on the CPU."""
    default_generator().manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed every device's generator."""
    for index in range(device_count()):
        default_generator(index).manual_seed(seed)


def seed() -> None:
    """Seed the current device's generator from the system's entropy."""
    default_generator().seed()


def seed_all() -> None:
    """Seed every device's generator, with one seed from the system's entropy."""
    seed()
    manual_seed_all(initial_seed())


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return default_generator().initial_seed()


def get_rng_state(device: DeviceLike = None) -> torch.Tensor:
    """The state of a device's generator, a CPU tensor of bytes."""
    return default_generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all devices' generators."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = None) -> None:
    """Set the state of a device's generator."""
    default_generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Set the states of all devices' generators."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
