"""Fresh processes that start with torch and transformers already imported.

A fork server imports the heavy packages once; every worker is forked from it. The supervisor
itself never imports torch, so a broken device cannot take it down.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from types import ModuleType
from typing import Any, TypeVar

import psutil

from harness.errors import HarnessError, InfrastructureError
from suites.lifeline import die_with_parent

PRELOADED = ("harness.preload",)

UNKNOWN_EXIT = 255
"""What multiprocessing reports when the fork server died and took the worker's exit status with it."""

MARK = "HARNESS_SUPERVISOR"
"""Variable in the environment of every process that a supervisor starts, and of what those start."""

T = TypeVar("T")


class ChildError(InfrastructureError):
    """A child died or raised where only a bug or a broken installation explains it."""


def context() -> ForkServerContext:
    """The fork server's context, with what it imports before it forks."""
    os.environ.setdefault(MARK, str(os.getpid()))
    fork_server = multiprocessing.get_context("forkserver")
    fork_server.set_forkserver_preload(list(PRELOADED))
    return fork_server


def call(function: Callable[..., T], *args: Any, timeout: float = 300) -> T:
    """Run a function in a fresh process and return its result.

    Raises:
        HarnessError: as raised by the function.
        ChildError: the process raised anything else, died, or took longer than ``timeout`` seconds.
    """
    receiver, sender = context().Pipe(duplex=False)
    try:
        process = start(_answer, sender, function, args)
    except (EOFError, ConnectionError) as error:
        raise ChildError(
            f"the fork server died when {function.__qualname__} was to run; try again"
        ) from error
    sender.close()
    try:
        if not receiver.poll(timeout):
            raise ChildError(f"{function.__qualname__} did not answer within {timeout:.0f} s")
        failed, value = receiver.recv()
    except EOFError:
        process.join()
        raise ChildError(
            f"the process running {function.__qualname__} died ({describe_exit(process.exitcode)})"
        ) from None
    finally:
        kill_tree(process)
    if failed:
        raise value if isinstance(value, HarnessError) else ChildError(str(value))
    result: T = value
    return result


def become_helper() -> None:
    """Make this process one that can be ended by :func:`kill_tree`, and that ends with the fork server."""
    os.setpgid(0, 0)
    die_with_parent()
    _let_go_of_server()


def _answer(sender: Connection, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    become_helper()
    try:
        answer: tuple[bool, Any] = False, function(*args)
    except HarnessError as error:
        answer = True, error
    except BaseException:  # noqa: BLE001 - it is raised again where the answer is read
        answer = True, traceback.format_exc(limit=-6)
    with contextlib.suppress(BrokenPipeError):  # whoever asked is gone
        sender.send(answer)


def start(function: Callable[..., None], *args: Any) -> ForkServerProcess:
    """Start a worker; it should call :func:`become_worker` first."""
    process = context().Process(target=function, args=args)
    with _without_main():
        process.start()
    return process


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Hide the program's main module while a process is started.

    multiprocessing would import it in every worker, which runs a script without a guard again and
    fails for a program read from standard input. Workers need nothing of it.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def become_worker(output: Connection) -> None:
    """Make this process one that can be ended as a whole: it leads a session, prints to a pipe, and dies
    with the fork server, which dies with the supervisor.
    """
    os.setsid()
    die_with_parent()
    _let_go_of_server()
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    output.close()


def _let_go_of_server() -> None:
    """Close this process's end of the pipe that tells the fork server that somebody needs it.

    multiprocessing hands it to every child. With it a worker would keep the server, and so itself, alive
    when the supervisor is gone.
    """
    server: Any = forkserver._forkserver
    if server._forkserver_alive_fd is not None:
        os.close(server._forkserver_alive_fd)
    server._forkserver_alive_fd = server._forkserver_address = None


def server_pid() -> int:
    """Process id of the fork server, 0 if it has not been started."""
    return int(getattr(forkserver._forkserver, "_forkserver_pid", None) or 0)


def kill_tree(process: ForkServerProcess) -> None:
    """Kill a process, its group and its descendants, and wait for it."""
    if process.pid is None:
        return
    try:
        descendants = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        descendants = []
    for pid in (process.pid, *(child.pid for child in descendants)):
        _kill(os.kill, pid)
    _kill(os.killpg, process.pid)
    process.join()


def _kill(function: Callable[[int, int], None], pid: int) -> None:
    try:
        function(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # already gone, or its number belongs to somebody else by now


def describe_exit(code: int | None) -> str:
    """Say how a process ended, from multiprocessing's exit code."""
    if code is None:
        return "still running"
    if code < 0:
        return f"killed by {signal_name(-code)}"
    return f"exit code {code}"


def signal_name(number: int) -> str:
    """``SIGSEGV`` for 11, and so on."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
