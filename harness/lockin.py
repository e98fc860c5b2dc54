"""Locks this process in: no network, every file system read-only, no privileges; Linux only.

Everything here is asked of the kernel by number, because neither this Python nor the C library names it
all: ``linux/sched.h``, ``linux/mount.h``, ``linux/prctl.h``, ``linux/capability.h``, ``linux/landlock.h``.

It keeps code from sending anything anywhere and from changing any file, and, from Linux 6.12 on, from
signalling other processes of the same user. It does not keep it from using up memory and time, which the
supervisor's limits do, nor from reading what this user can read.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

_NEWNS, _NEWIPC, _NEWUSER, _NEWNET = 0x00020000, 0x08000000, 0x10000000, 0x40000000
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_RDONLY, _NOSUID = 1, 2
_MOUNT_SETATTR = 442  # The same on every architecture that is younger than the call (Linux 5.12).
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL = 24, 38, 47, 4
_LANDLOCK_CREATE_RULESET, _LANDLOCK_RESTRICT_SELF = 444, 446
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 2
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION_3 = 0x20080522
_SCRATCH_BYTES = 2 * 2**30

_SECRETS = (".ssh", ".aws", ".config", ".docker", ".kube", ".gnupg", ".netrc", ".git-credentials")
_TOKENS = (".cache/huggingface/token", ".cache/huggingface/stored_tokens", ".huggingface/token")

_locked = False


class LockInError(OSError):
    """This machine cannot lock a process in; the sentence says what it lacks."""


def is_locked_in() -> bool:
    """Whether this process locked itself in."""
    return _locked


def lock_in(scratch: Path, writable: Sequence[Path], home: Path) -> None:
    """Lock this process in, for good; it must have one thread only.

    Args:
        scratch: an empty folder; it becomes a file system in memory, the only place for new files.
        writable: files and folders that stay as they are.
        home: whose secrets are hidden.

    Raises:
        LockInError: the kernel, or the container around it, does not let it. Nothing was run; the process
            may be half locked in.
    """
    global _locked
    if sys.platform != "linux" or platform.machine() not in _CAPSET:
        raise LockInError(f"this machine ({sys.platform}, {platform.machine()}) cannot lock a process in")
    _leave_namespaces()
    _mount("none", "/", "", _MS_REC | _MS_PRIVATE)
    for path in writable:
        _mount(str(path), str(path), "", _MS_BIND | _MS_REC)
    _set_attributes(Path("/"), _RDONLY | _NOSUID, 0, _AT_RECURSIVE)
    for path in writable:
        _set_attributes(path, 0, _RDONLY, 0)
    _mount("none", str(scratch), "tmpfs", _MS_NOSUID | _MS_NODEV, f"size={_SCRATCH_BYTES}")
    _mount("none", "/dev/shm", "tmpfs", _MS_NOSUID | _MS_NODEV, f"size={_SCRATCH_BYTES}")
    _hide(home)
    _drop_privileges()
    _keep_signals_in()
    os.chdir(scratch)
    _locked = True


def _leave_namespaces() -> None:
    user, group = os.getuid(), os.getgid()
    _check(_libc().unshare(_NEWUSER | _NEWNS | _NEWNET | _NEWIPC), "unshare")
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except OSError as error:
        raise LockInError(f"this machine cannot lock a process in (user map: {error.strerror})") from error


def _hide(home: Path) -> None:
    """Cover sockets of services, which a read-only file system does not close, and the user's secrets."""
    for path in (Path("/run"), Path("/var/run"), *(home / name for name in _SECRETS)):
        if path.is_dir() and not path.is_symlink():
            _mount("none", str(path), "tmpfs", _MS_NOSUID | _MS_NODEV, "size=0,mode=555")
    for path in (*(home / name for name in (*_SECRETS, *_TOKENS)), *_token_files()):
        if path.is_file():
            _mount("/dev/null", str(path), "", _MS_BIND)


def _token_files() -> list[Path]:
    named, folder = os.environ.get("HF_TOKEN_PATH"), os.environ.get("HF_HOME")
    return [*([Path(named)] if named else []), *([Path(folder) / "token"] if folder else [])]


def _drop_privileges() -> None:
    libc = _libc()
    _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    libc.prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL, 0, 0, 0)
    capability = 0
    while libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _check(libc.syscall(ctypes.c_long(_CAPSET[platform.machine()]), header, nothing), "capset")


def _keep_signals_in() -> None:
    """Let this process signal its own children only, where the kernel knows how (Landlock, Linux 6.12)."""
    libc = _libc()
    scopes = (ctypes.c_uint64 * 3)(0, 0, _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS)
    rules = libc.syscall(
        ctypes.c_long(_LANDLOCK_CREATE_RULESET), scopes, ctypes.c_size_t(ctypes.sizeof(scopes)), 0
    )
    if rules >= 0:
        libc.syscall(ctypes.c_long(_LANDLOCK_RESTRICT_SELF), rules, 0)
        os.close(rules)


class _Attributes(ctypes.Structure):
    """``struct mount_attr``."""

    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("user_namespace", ctypes.c_uint64),
    )


def _set_attributes(path: Path, on: int, off: int, flags: int) -> None:
    attributes = _Attributes(on, off, 0, 0)
    _check(
        _libc().syscall(
            ctypes.c_long(_MOUNT_SETATTR),
            ctypes.c_int(_AT_FDCWD),
            os.fsencode(path),
            ctypes.c_uint(flags),
            ctypes.byref(attributes),
            ctypes.c_size_t(ctypes.sizeof(attributes)),
        ),
        "mount_setattr",
    )


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    _check(
        _libc().mount(
            source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), options.encode()
        ),
        f"mount {target}",
    )


def _check(result: int, what: str) -> None:
    if result != 0:
        said = os.strerror(ctypes.get_errno())
        raise LockInError(f"this machine cannot lock a process in ({what}: {said})")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
