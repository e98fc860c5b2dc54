"""One operator on a device against the CPU, with torch alone.

Needs torch, its test dependencies and the device. Exits 1 where a sample fails, and 0 where none does.
"""

# ruff: noqa: BLE001, B905 - whatever a device raises is the answer
# mypy: ignore-errors

import hashlib
import itertools
import random
import sys
import warnings

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

# --- case ---
OP = "add"
DTYPE = "float32"
DEVICE = "cpu"
BOUNDS: dict[str, tuple[float, float]] = {"float32": (1.3e-6, 1e-5)}
COMPARE_VALUES = True
RANDOM_WITH = ""
STAYS_ON_CPU: tuple[int, ...] = ()
GIVE_DEVICE = False
# --- end of case ---

MOST, POOL = 20, 100
OWN_ERRORS = 2.0
WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}
SEVERITY = ("failed_numeric", "failed_exception", "out_of_memory", "unsupported")


def seed_everything(device):
    """Seed whatever samples and operators draw from, as the harness did."""
    seed = int.from_bytes(hashlib.sha256(f"op_db::{OP}[{DTYPE}]".encode()).digest()[:4], "big")
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)
    if device != "cpu":
        torch.get_device_module(device).manual_seed_all(seed)


def samples(op):
    """The same calls as in the run: at most 20 of the first 100, spread evenly."""
    seed_everything("cpu")
    made = op.sample_inputs_func(op, "cpu", getattr(torch, DTYPE), False)
    made = [((s.input, *s.args), dict(s.kwargs)) for s in itertools.islice(made, POOL)]
    if len(made) <= MOST:
        return made
    return [made[round(place * (len(made) - 1) / (MOST - 1))] for place in range(MOST)]


def place(call, device, widen=False):
    """Copy a call's arguments to a device as they lie in memory; what shared memory shares it again."""
    memories = {}

    def dtype_of(tensor):
        return WIDER.get(tensor.dtype, tensor.dtype) if widen else tensor.dtype

    def copied(tensor, target):
        if tensor.layout != torch.strided or type(tensor) is not torch.Tensor:
            return tensor.to(target, dtype_of(tensor), copy=True)
        if tensor.is_conj():
            return copied(tensor.conj(), target).conj()
        if tensor.is_neg():
            return torch._neg_view(copied(torch._neg_view(tensor), target))
        storage, wide = tensor.untyped_storage(), dtype_of(tensor)
        seen = torch.uint8 if wide is tensor.dtype else tensor.dtype
        key = (storage.data_ptr(), seen, target)
        if key not in memories or not key[0]:
            whole = torch.empty(0, dtype=seen).set_(storage, 0, (storage.nbytes() // seen.itemsize,), (1,))
            same = wide is tensor.dtype
            memories[key] = whole.to(target, copy=True) if same else whole.to(target, wide)
        empty = torch.empty(0, dtype=wide, device=target)
        memory = memories[key].untyped_storage()
        return empty.set_(memory, tensor.storage_offset(), tensor.size(), tensor.stride())

    def moved(value, target=device):
        if isinstance(value, torch.Tensor):
            found = copied(value.detach(), target)
            return found.requires_grad_() if value.requires_grad else found
        if isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu"):
            return type(value)(target)
        if isinstance(value, slice):
            return slice(*(moved(part, target) for part in (value.start, value.stop, value.step)))
        if isinstance(value, dict):
            return {name: moved(item, target) for name, item in value.items()}
        if type(value) in (list, tuple):
            return type(value)(moved(item, target) for item in value)
        return value

    args, kwargs = call
    stays = {position + 1 for position in STAYS_ON_CPU}
    args = tuple(moved(value, "cpu" if at in stays else device) for at, value in enumerate(args))
    kwargs = moved(kwargs)
    if GIVE_DEVICE:
        kwargs.setdefault("device", device)
    return args, kwargs


def tensors(call):
    """The tensors among the arguments, in order."""
    return [leaf for leaf in tree_flatten(list(call))[0] if isinstance(leaf, torch.Tensor)]


def run(op, call, device, widen=False):
    """Run a call on a device; give what it returned, and its arguments as it left them."""
    args, kwargs = place(call, device, widen)
    if device != "cpu":
        torch.get_device_module(device).synchronize()
    seed_everything(device)
    result = op.op(*args, **kwargs)
    if device != "cpu":
        torch.get_device_module(device).synchronize()
    return result, tensors((args, kwargs))


def comparable(tensor):
    """The values on the CPU, dense, in a dtype wide enough to compare them."""
    tensor = tensor.detach()
    tensor = (tensor if tensor.layout == torch.strided else tensor.to_dense()).cpu()
    if tensor.is_complex():
        wide = tensor if tensor.dtype != torch.complex32 else tensor.to(torch.complex64)
        return torch.view_as_real(wide.resolve_conj())
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def difference(path, actual, expected, more, values):
    """What differs between two results, in words; "" if nothing does."""
    if isinstance(expected, torch.Tensor) and isinstance(actual, torch.Tensor):
        return tensor_difference(path, actual, expected, more, values)
    if isinstance(expected, (list, tuple)) and isinstance(actual, (list, tuple)):
        if len(actual) != len(expected):
            return f"{path}: is a {type(actual).__name__} of {len(actual)}, expected {len(expected)}"
        found = [
            difference(f"{path}[{i}]", *pair, more, values) for i, pair in enumerate(zip(actual, expected))
        ]
        return first_of([text for text in found if text])
    if type(actual) is not type(expected):
        return f"{path}: is a {type(actual).__name__}, expected a {type(expected).__name__}"
    if isinstance(expected, float):
        return tensor_difference(
            path, torch.tensor(actual), torch.tensor(expected), more, values, placed=False
        )
    return "" if actual == expected or not values else f"{path}: is {actual}, expected {expected}"


def first_of(found):
    """The first difference, with how many more there are."""
    others = len(found) - 1
    return (found[0] + (f" (and {others} more differences)" if others else "")) if found else ""


def tensor_difference(path, actual, expected, more, values, placed=True):
    """The same for two tensors: shape, dtype and device first, then values."""
    if actual.shape != expected.shape:
        return f"{path}: shape is {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    if actual.dtype != expected.dtype:
        names = [str(tensor.dtype).removeprefix("torch.") for tensor in (actual, expected)]
        return f"{path}: dtype is {names[0]}, expected {names[1]}"
    if placed and actual.device.type != DEVICE:
        return f"{path}: is on {actual.device.type}, expected on {DEVICE}"
    one, two = comparable(actual), comparable(expected)
    if not values or not one.numel():
        return ""
    name = str(expected.dtype).removeprefix("torch.")
    rtol, atol = BOUNDS.get(name, (0.0, 0.0)) if one.is_floating_point() else (0.0, 0.0)
    if one.is_floating_point():
        finite = one.isfinite() & two.isfinite()
        excess = (one - two).abs() - (atol + more + rtol * two.abs())
        agree = (one == two) | (one.isnan() & two.isnan())
        excess = torch.where(finite, excess, torch.inf).masked_fill(agree, 0.0)
    else:
        excess = torch.where(one != two, (one.double() - two.double()).abs().clamp_min(1.0), 0.0)
    wrong = int((excess > 0).sum())
    if not wrong:
        return ""
    at = [int(i) for i in numpy.unravel_index(int(excess.flatten().argmax()), tuple(one.shape))]
    got, want = one[tuple(at)].item(), two[tuple(at)].item()
    bound = f"within rtol={rtol:g}, atol={atol + more:g}" if rtol or atol + more else "exactly"
    where = f" at {tuple(at[: expected.dim()])}" if at[: expected.dim()] else ""
    off = abs(got - want)
    return (
        f"{path}: {wrong} of {one.numel()} elements of {name} do not agree {bound}; worst{where}: {got!r}, "
        f"expected {want!r}" + (f", off by {off:.3g}" if off < float("inf") else "")
    )


def against(actual, arguments, expected, after, before, more=0.0, values=True):
    """What differs in the result, or else in the arguments that the CPU wrote into."""
    found = difference("output", actual, expected, more, values)
    for at, (wrote, left, had) in enumerate(zip(arguments, after, before)):
        if (
            not found
            and left.layout == torch.strided
            and not torch.equal(had.detach().to(left.dtype), left.detach())
        ):
            found = difference(f"tensor argument {at}, written into,", wrote, left, more, values)
    return found


def rounded(wide, like):
    """A result in float64, in the dtypes of another."""
    return tree_map(lambda w, n: w.to(n.dtype) if isinstance(w, torch.Tensor) else w, wide, like)


def drawn(call):
    """Whether a call's values are random, so that only their shape and dtype are compared."""
    return not COMPARE_VALUES or bool(RANDOM_WITH and call[1].get(RANDOM_WITH))


def judge(op, call, reference):
    """What a sample comes to on the device: outcome, exception and message; None if it is right."""
    try:
        actual, arguments = run(op, call, DEVICE)
        found = against(actual, arguments, *reference, tensors(call), values=not drawn(call))
        if found and not right_in_float64(op, call, reference, actual, arguments):
            return "failed_numeric", "", found
        return None
    except torch.OutOfMemoryError as error:
        outcome, raised = "out_of_memory", error
    except NotImplementedError as error:
        outcome, raised = "unsupported", error
    except Exception as error:
        outcome, raised = "failed_exception", error
    kind = type(raised)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return outcome, name, str(raised) or name


def right_in_float64(op, call, reference, actual, arguments):
    """Whether a result agrees with the CPU's in float64, or is about as near to it as the CPU's own is."""
    if DTYPE in ("float64", "complex128"):
        return False
    try:
        result, after = run(op, call, "cpu", widen=True)
        wide = rounded((result, after), reference)
    except Exception:
        return False
    if not against(actual, arguments, *wide, tensors(call)):
        return True
    own = [
        float((comparable(w).double() - comparable(n).double()).abs().nan_to_num().max())
        for w, n in zip(tree_flatten(result)[0], tree_flatten(reference[0])[0])
        if isinstance(n, torch.Tensor) and n.is_floating_point() and n.numel()
    ]
    error = OWN_ERRORS * max(own, default=0.0)
    return not against(actual, arguments, *wide, tensors(call), more=error)


def main():
    """Run every sample, and say what the worst one came to."""
    warnings.simplefilter("ignore")
    op = next(entry for entry in op_db if entry.full_name == OP)
    found, ran = [], 0
    for call in samples(op):
        try:
            reference = run(op, call, "cpu")
        except Exception:  # what the CPU cannot run proves nothing of a device
            continue
        if (answer := judge(op, call, reference)) is not None:
            found.append((ran, answer))
        ran += 1
    if not found:
        print(f"outcome: passed\nmessage: all of {ran} samples agree with the CPU")
        return 0
    first, (outcome, exception, message) = min(found, key=lambda item: SEVERITY.index(item[1][0]))
    if ran > 1:
        same = sum(answer[0] == outcome for _, answer in found)
        message = f"{same} of {ran} samples, first #{first}: {message}"
    print(f"outcome: {outcome}\nexception: {exception}\nmessage: {message}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
