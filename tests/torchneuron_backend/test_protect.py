"""Protect mode: device memory is closed to the host except while device work runs."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

DEAD = -signal.SIGSEGV
OUTSIDE = "neuron: host code touched device memory outside device work, at 0x"

# An interpreter that has imported torch, but not used the device, and runs code in forks of itself.
FORKS = """
import ctypes, json, os, sys, traceback, torch, torchneuron_backend.memory

def peek(address):
    return ctypes.c_float.from_address(address).value

for line in sys.stdin:
    job = json.loads(line)
    pid = os.fork()
    if pid == 0:
        os.environ["TORCHNEURON_PROTECT"] = job["protect"]
        for number, name in (1, "output"), (2, "errors"):
            os.dup2(os.open(job[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        code = 0
        try:
            exec(job["code"], {"torch": torch, "torchneuron_backend": torchneuron_backend, "peek": peek})
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""

# Runs code with TORCHNEURON_PROTECT set so, and returns exit code, output and errors.
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def protected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with subprocess.Popen(
        [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as forks:
        assert forks.stdin is not None
        assert forks.stdout is not None
        files = {name: str(tmp_path_factory.mktemp("forks") / name) for name in ("output", "errors")}

        def run(code: str, protect: str = "1") -> tuple[int, str, str]:
            print(json.dumps({"code": code, "protect": protect, **files}), file=forks.stdin, flush=True)
            returncode = int(forks.stdout.readline())
            return returncode, *(Path(file).read_text() for file in files.values())

        yield run
        forks.stdin.close()


WAYS_TO_DEVICE_MEMORY = {
    "allocated": "torch.zeros(4, device='neuron')",
    "copied to the device": "torch.arange(4.).to('neuron')",
    "result of a native kernel": "torch.ones(4, device='neuron') + 1",
    "result of a fallback": "torch.ones(4, dtype=torch.float64, device='neuron').sinh()",
    "result of a list": "torch._foreach_add([torch.ones(4, device='neuron')], 1)[0]",
    "resized by a kernel": "torch.neg(torch.ones(4, device='neuron'), out=torch.empty(0, device='neuron'))",
    "resized": "torch.ones(1, device='neuron').resize_(4)",
    "a view": "torch.ones(9, device='neuron')[3:]",
    "adopted": "torchneuron_backend.memory.adopt(torch.ones(4))",
    "compiled": "torch.compile(lambda x: x + 1, backend='neuron')(torch.ones(4, device='neuron'))",
}


@pytest.mark.parametrize("make", WAYS_TO_DEVICE_MEMORY.values(), ids=WAYS_TO_DEVICE_MEMORY)
def test_the_host_cannot_read_device_memory(make: str, protected: Run) -> None:
    code = f"""
x = {make}
print(x.cpu().numel(), flush=True)
peek(x.data_ptr())
"""
    returncode, output, errors = protected(code)
    assert output.strip() != "", errors
    assert (returncode, OUTSIDE in errors) == (DEAD, True), errors


def test_without_it_the_host_can(protected: Run) -> None:
    code = "x = torch.full((4,), 2.5, device='neuron'); print(peek(x.data_ptr()))"
    assert protected(code, protect="0")[:2] == (0, "2.5\n")


def test_a_read_beyond_the_end_is_named_as_such(protected: Run) -> None:
    code = "x = torch.ones(16, device='neuron'); peek(x.data_ptr() + 64)"
    returncode, _, errors = protected(code)
    assert returncode == DEAD
    assert "an access beyond the end of device memory" in errors
    assert "byte 64 of a block of 64 (TORCHNEURON_PROTECT=1)" in errors


def test_a_fault_elsewhere_is_left_to_whoever_handled_it_before(protected: Run) -> None:
    returncode, _, errors = protected("torch.ones(1, device='neuron'); peek(8)")
    assert returncode == DEAD
    assert "neuron:" not in errors
    returncode, _, errors = protected(
        "import faulthandler; faulthandler.enable(); x = torch.ones(1, device='neuron'); peek(x.data_ptr())"
    )
    assert returncode == DEAD
    assert OUTSIDE in errors
    assert "Segmentation fault" in errors  # Python's handler comes after


TRAINING = """
from torch import nn
def train(device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.Flatten(), nn.Dropout(0.2),
                          nn.Linear(4 * 36, 3)).to(device)
    images, labels = torch.randn(5, 1, 8, 8).to(device), torch.tensor([0, 1, 2, 1, 0]).to(device)
    steps = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=True)
    torch.manual_seed(1)
    for _ in range(3):
        steps.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        steps.step()
    return loss.item(), {name: value.cpu() for name, value in model.state_dict().items()}
(loss, state), (reference, expected) = train('neuron'), train('cpu')
print(loss == reference, all(state[name].equal(expected[name]) for name in expected))
"""


def test_a_model_trains_as_on_the_cpu(protected: Run) -> None:
    assert protected(TRAINING)[:2] == (0, "True True\n")


def test_a_compiled_model_runs(protected: Run) -> None:
    code = """
layer = torch.nn.Linear(4, 4).to('neuron')
batch = torch.rand(2, 4, device='neuron')
compiled = torch.compile(layer, backend='neuron')
compiled(batch).sum().backward()
print(torch.allclose(compiled(batch), layer(batch)), layer.weight.grad.shape)
peek(layer.weight.data_ptr())
"""
    returncode, output, errors = protected(code)
    assert output == "True torch.Size([4, 4])\n", errors
    assert (returncode, OUTSIDE in errors) == (DEAD, True)  # closed again after the program


def test_an_alias_opens_the_memory_as_long_as_it_lives(protected: Run) -> None:
    code = """
from torchneuron_backend.memory import host_alias
x = torch.full((4,), 2.5, device='neuron')
first, second = host_alias(x), host_alias(x[1:])
print(first.tolist(), x.sum().item(), peek(x.data_ptr()))
del first
print(second.tolist(), flush=True)
del second
peek(x.data_ptr())
"""
    returncode, output, errors = protected(code)
    assert output == "[2.5, 2.5, 2.5, 2.5] 10.0 2.5\n[2.5, 2.5, 2.5]\n", errors
    assert (returncode, OUTSIDE in errors) == (DEAD, True)


def test_an_alias_outlives_its_tensor(protected: Run) -> None:
    code = """
from torchneuron_backend.memory import host_alias
x = torch.full((4,), 2.5, device='neuron')
alias = host_alias(x)
del x
torch.neuron.empty_cache()
print(alias.tolist())
del alias
torch.neuron.empty_cache()
print(torch.neuron.memory_reserved())
"""
    assert protected(code)[:2] == (0, "[2.5, 2.5, 2.5, 2.5]\n0\n")


def test_a_fallback_computes_on_copies_alone(protected: Run) -> None:
    code = """
library = torch.library.Library('protected', 'DEF')
library.define('peeks(Tensor x, int address) -> Tensor')
def peeks(x, address):
    print(x.tolist(), flush=True)
    peek(address)
    return x
library.impl('peeks', peeks, 'CPU')
x = torch.ones(2, device='neuron')
torch.ops.protected.peeks(x, x.data_ptr())
"""
    returncode, output, errors = protected(code)
    assert output == "[1.0, 1.0]\n", errors
    assert (returncode, OUTSIDE in errors) == (DEAD, True)


def test_threads_do_not_close_each_other_s_memory(protected: Run) -> None:
    code = """
import threading
shared = torch.ones(200, 200, device='neuron')
wrong = []
def work():
    for _ in range(300):
        if (shared + shared).sum().item() != 80000 or shared.mm(shared)[0, 0].item() != 200:
            wrong.append(1)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(wrong), flush=True)
peek(shared.data_ptr())
"""
    returncode, output, errors = protected(code)
    assert output == "0\n", errors
    assert (returncode, OUTSIDE in errors) == (DEAD, True)


def test_the_books_are_the_same(protected: Run) -> None:
    code = """
x = torch.ones(1000, device='neuron'); y = x + 1; z = torch.empty(2**20, device='neuron'); del z
print(torch.neuron.memory_allocated(), torch.neuron.memory_reserved(), torch.neuron.max_memory_allocated())
"""
    assert protected(code)[1] == protected(code, protect="0")[1] != ""


def test_another_value_is_one_sentence(protected: Run) -> None:
    _, _, errors = protected("torch.ones(1, device='neuron')", protect="yes")
    assert errors.strip().endswith("RuntimeError: TORCHNEURON_PROTECT is 'yes', not 0 or 1.")
