"""Run a function in a forked child, because the compiler can kill the process it runs in.

A child inherits the parsed graph and every imported module, so a call costs one fork and one pickle of the
result. Where calls are many and small, a `Worker` stays and takes one after another.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import pickle
import resource
import select
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch
import torch.hub

# What a child may allocate beyond what it inherits; lowering a 300-node graph takes a few megabytes.
_MEMORY_BYTES = 6 << 30

# A worker's memory grows a little with each request.
_REQUESTS = 500
# How often an idle worker looks whether its parent is still there.
_LOOK_UP_S = 5.0


class ChildFailedError(RuntimeError):
    """The child raised: ``kind`` is the exception's class name, ``text`` its message."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind
        self.text = text


class ChildDiedError(RuntimeError):
    """The child ended without an answer: ``signal_name`` (None for a plain exit) and its last words."""

    def __init__(self, signal_name: str | None, last_words: str) -> None:
        super().__init__(f"died of {signal_name or 'an exit'}: {last_words}".rstrip(": "))
        self.signal_name = signal_name
        self.last_words = last_words


class ChildTimeoutError(RuntimeError):
    """The child did not answer within its time and was killed."""


@dataclass(frozen=True)
class Message:
    """One line from a child: a ``tag`` chosen by the child's function and a picklable ``value``."""

    tag: str
    value: Any


def call(function: Callable[..., Any], *args: Any, timeout_s: float) -> Any:
    """``function(*args)`` in a forked child; its result must pickle.

    Raises ChildFailedError, ChildDiedError or ChildTimeoutError.
    """
    for message in stream(lambda emit: emit("result", function(*args)), timeout_s=timeout_s):
        if message.tag == "result":
            return message.value
    raise ChildDiedError(None, "no result")


def stream(
    function: Callable[[Callable[[str, Any], None]], None], *, timeout_s: float, each: bool = False
) -> Iterator[Message]:
    """Run ``function(emit)`` in a forked child and yield what it emits, as it emits it.

    So a caller knows what the child was doing when it died. ``timeout_s`` covers the whole child, or ``each``
    wait for its next message.
    Raises as :func:`call` does.
    """
    reader, writer = os.pipe()
    with tempfile.TemporaryFile() as stderr:
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            _child(function, writer, stderr)
        os.close(writer)
        answered = False
        try:
            yield from _messages(reader, time.monotonic() + timeout_s, timeout_s if each else None)
            answered = True
        finally:
            os.close(reader)
            status = _reap(pid, patience_s=1.0 if answered else 0.0)
        if status != 0:
            name = signal.Signals(-status).name if status < 0 else None
            raise ChildDiedError(name, _last_words(stderr))


class Worker:
    """A child that stays, and answers each request with ``function(request)``; both must pickle.

    It is forked when first asked, and again when it has died or has answered ``_REQUESTS`` times. One thread
    may ask at a time. It ends with its parent.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._pid = 0
        self._owner = 0
        self._left = 0

    def ask(self, request: Any, timeout_s: float) -> Any:
        """The answer. Raises as :func:`call` does."""
        if not self._is_there():
            self._start()
        self._left -= 1
        try:
            with contextlib.suppress(BrokenPipeError):  # then reading tells how it died
                _write_all(self._writer, _framed(request))
            for message in _messages(self._reader, time.monotonic() + timeout_s):
                if message.tag == "result":
                    return message.value
        except ChildFailedError:
            raise  # it goes on
        except BaseException:
            self._stop()
            raise
        status, words = self._stop(patience_s=1.0), _last_words(self._stderr)
        raise ChildDiedError(signal.Signals(-status).name if status < 0 else None, words)

    def _is_there(self) -> bool:
        if self._owner != os.getpid() or not self._pid:
            return False
        if self._left and os.waitpid(self._pid, os.WNOHANG) == (0, 0):
            return True
        self._stop()
        return False

    def _start(self) -> None:
        if self._pid:  # this process is a fork of the one whose child it was
            self._close()
        parent = os.getpid()
        requests, self._writer = os.pipe()
        self._reader, answers = os.pipe()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the child
        pid = os.fork()
        if pid == 0:
            os.close(self._writer)
            os.close(self._reader)
            _child(lambda emit: self._serve(requests, emit, parent), answers, self._stderr)
        os.close(requests)
        os.close(answers)
        self._pid, self._owner, self._left = pid, parent, _REQUESTS

    def _serve(self, requests: int, emit: Callable[[str, Any], None], parent: int) -> None:
        # A fork of the parent may hold the other end of the pipe open for longer than the parent lives.
        while os.getppid() == parent:
            if not select.select([requests], [], [], _LOOK_UP_S)[0]:
                continue
            request = _read_framed(requests)
            if request is None:
                return
            try:
                emit("result", self._function(request))
            except Exception as error:  # noqa: BLE001 - whatever it was, the parent must hear of it
                emit("error", (type(error).__name__, str(error)))

    def _stop(self, patience_s: float = 0.0) -> int:
        pid, self._pid = self._pid, 0
        self._close()
        with contextlib.suppress(ChildProcessError):  # seen dead already
            return _reap(pid, patience_s)
        return 0

    def _close(self) -> None:
        os.close(self._writer)
        os.close(self._reader)


def _child(function: Callable[[Callable[[str, Any], None]], None], writer: int, stderr: IO[bytes]) -> None:
    """Never returns. No finaliser of the parent's objects may run here: their threads are not in this
    process.
    """
    gc.disable()
    with contextlib.suppress(BaseException):
        faulthandler.disable()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(stderr.fileno(), 2)
        _limit_memory()
        _keep_progress_bars_to_threads()
        # OpenMP's pool did not survive the fork; one thread never asks for it.
        torch.set_num_threads(1)

    def emit(tag: str, value: Any) -> None:
        _write_all(writer, _framed((tag, value)))

    try:
        function(emit)
    except BaseException as error:  # noqa: BLE001 - whatever it was, the parent must hear of it
        with contextlib.suppress(BaseException):
            emit("error", (type(error).__name__, str(error)))
    os._exit(0)


def _limit_memory() -> None:
    """A compiler that folds a constant without end must not take the machine with it."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + _MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _keep_progress_bars_to_threads() -> None:
    """torch.fx makes a progress bar even where it shows none, and the first bar of a process makes a
    semaphore between processes. In a process of a fork server that has a name, which nobody would give back,
    as the child runs no finalisers.
    """
    bars: Any = torch.hub.tqdm
    if hasattr(bars, "set_lock"):  # torch has a stand-in where there is no tqdm
        bars.set_lock(threading.RLock())


def _framed(value: Any) -> bytes:
    data = pickle.dumps(value)
    return len(data).to_bytes(8, "little") + data


def _read_framed(reader: int) -> Any:
    """What `_framed` made; None at the end."""
    with os.fdopen(os.dup(reader), "rb", buffering=0) as file:
        length = int.from_bytes(file.read(8), "little")
        data = bytearray()
        while len(data) < length and (chunk := file.read(length - len(data))):
            data += chunk
    return pickle.loads(bytes(data)) if length else None


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _messages(reader: int, deadline: float, each_s: float | None = None) -> Iterator[Message]:
    """Those that come before ``deadline``, which each puts off to ``each_s`` from then."""
    buffer = bytearray()
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise ChildTimeoutError("gave no answer in time")
        chunk = os.read(reader, 1 << 20)
        if not chunk:
            return
        buffer += chunk
        while len(buffer) >= 8 and len(buffer) >= 8 + int.from_bytes(buffer[:8], "little"):
            end = 8 + int.from_bytes(buffer[:8], "little")
            tag, value = pickle.loads(bytes(buffer[8:end]))
            del buffer[:end]
            if tag == "error":
                raise ChildFailedError(*value)
            yield Message(tag, value)
            if each_s is not None:
                deadline = time.monotonic() + each_s


def _reap(pid: int, patience_s: float) -> int:
    """The child's exit code, negative for a signal. A child that is still running is not needed any more."""
    deadline = time.monotonic() + patience_s
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= deadline:
            break
        time.sleep(0.0005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return 0


def _last_words(stderr: IO[bytes]) -> str:
    stderr.seek(0)
    lines = stderr.read().decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""
