"""The entries that cases are made from, whichever of torch's lists they stand in."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Protocol

import torch
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.common_methods_invocations import op_db

from suites.opinfo.samples import Call, call_of
from suites.opinfo.selection import SelectionError, check_names

OP_DB = "op_db"

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


def as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps nothing around a function."""
    return function


class Entry(Protocol):
    """One entry of one list, as the checks see it.

    Attributes:
        database: name of the list, the second part of a case's id.
        noun: what messages call an entry, e.g. ``operator``.
        name: unique in its list, e.g. ``div.floor_rounding``.
        dtypes: those that the list says it runs in on the CPU.
        gradient_dtypes: of these, the ones it can be differentiated in; empty if it cannot.
        twice: whether a derivative can be differentiated again.
        takes_out: whether it has a form with ``out=``.
        paired: whether it runs under a dispatch mode, which tells kernels from what called them.
        in_place: the form that writes into its first argument, ``None`` if there is none.
    """

    @property
    def database(self) -> str: ...
    @property
    def noun(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def dtypes(self) -> Collection[torch.dtype]: ...
    @property
    def gradient_dtypes(self) -> Collection[torch.dtype]: ...
    @property
    def twice(self) -> bool: ...
    @property
    def takes_out(self) -> bool: ...
    @property
    def paired(self) -> bool: ...
    @property
    def in_place(self) -> Callable[..., Any] | None: ...

    def lacks(self, check: str) -> str:
        """Why a check makes no sense of it, ``""`` if it does; what the attributes say is not said again."""

    def samples(self, dtype: torch.dtype, requires_grad: bool) -> Iterator[Call]:
        """Calls on the CPU, the simplest first; random, so seed the generators before."""

    def run(self, call: Call, wrap: Wrap = as_it_is) -> Any:
        """Make a call, where its tensors are.

        Args:
            wrap: makes what is called out of the function, or module, that a program would compile.
        """

    def errors(self) -> Iterable[Any] | None:
        """torch's ``ErrorInput`` objects on the CPU, ``None`` if the list has none for it."""


@contextmanager
def _unseeded() -> Iterator[None]:
    """Let random operators be traced: op_db runs them under a seed, in a way that no compiler can follow.

    Checks seed every generator before a call anyway.
    """
    seeded = common_methods_invocations.wrapper_set_seed
    common_methods_invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    try:
        yield
    finally:
        common_methods_invocations.wrapper_set_seed = seeded


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class OpEntry:
    """An ``OpInfo``."""

    database: str
    name: str
    info: Any

    noun = "operator"
    paired = True

    @property
    def dtypes(self) -> Collection[torch.dtype]:
        """What the list says of the CPU: a dtype that a device lacks is for the device to refuse."""
        found: Collection[torch.dtype] = self.info.supported_dtypes("cpu")
        return found

    @property
    def gradient_dtypes(self) -> Collection[torch.dtype]:
        """Empty where the operator has no derivative."""
        found: Collection[torch.dtype] = self.info.supported_backward_dtypes("cpu")
        return found if self.info.supports_autograd else ()

    @property
    def twice(self) -> bool:
        """``supports_gradgrad``."""
        return bool(self.info.supports_gradgrad)

    @property
    def takes_out(self) -> bool:
        """``supports_out``."""
        return bool(self.info.supports_out)

    @property
    def in_place(self) -> Callable[..., Any] | None:
        """``Tensor.add_`` for ``add``."""
        found: Callable[..., Any] | None = self.info.get_inplace()
        return found

    def lacks(self, check: str) -> str:
        """Nothing that the other attributes do not say."""
        return ""

    def samples(self, dtype: torch.dtype, requires_grad: bool) -> Iterator[Call]:
        """Not by ``info.sample_inputs``.

        Around this it looks through the call stack, milliseconds a case, and seeds anew before every
        sample, with one seed for all cases.
        """
        for sample in self.info.sample_inputs_func(self.info, "cpu", dtype, requires_grad):
            yield call_of(sample)

    def run(self, call: Call, wrap: Wrap = as_it_is) -> Any:
        """The functional form."""
        if wrap is as_it_is:
            return self.info.op(*call.args, **call.kwargs)
        with _unseeded():
            return wrap(self.info.op)(*call.args, **call.kwargs)

    def errors(self) -> Iterable[Any] | None:
        """``error_inputs``."""
        if self.info.error_inputs_func is None:
            return None
        found: Iterable[Any] = self.info.error_inputs_func(self.info, "cpu")
        return found


@cache
def operators() -> dict[str, Any]:
    """The OpInfo entries of the installed torch by full name (``div.floor_rounding``)."""
    return _by_name(OP_DB, [(op.full_name, op) for op in op_db])


def _by_name(database: str, named: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    ordered = sorted(named, key=lambda item: item[0])
    for one, two in itertools.pairwise(ordered):
        if one[0] == two[0]:
            raise RuntimeError(
                f"{database} of this torch has two entries {one[0]!r}; ids would not be unique"
            )
    return dict(ordered)


def _op_db() -> dict[str, Entry]:
    return {name: OpEntry(OP_DB, name, info) for name, info in operators().items()}


def _made_by(module: str, database: str) -> Callable[[], dict[str, Entry]]:
    """Imported when it is asked for, for it may import much of torch's test machinery."""

    def make() -> dict[str, Entry]:
        named: Iterable[tuple[str, Entry]] = importlib.import_module(f"suites.opinfo.{module}").named()
        return _by_name(database, named)

    return make


_MAKERS: Mapping[str, Callable[[], dict[str, Entry]]] = {
    OP_DB: _op_db,
    "foreach": _made_by("foreach", "foreach"),
    "hop_db": _made_by("higher_order", "hop_db"),
    "module_db": _made_by("modules", "module_db"),
    "optim_db": _made_by("optimizers", "optim_db"),
}

DATABASES = tuple(_MAKERS)


def entries(database: str) -> dict[str, Entry]:
    """The entries of one list of the installed torch, by name.

    Raises:
        SelectionError: there is no such list.
    """
    check_names([database], DATABASES, "opinfo_databases", what="list")
    return _entries(database)


@cache
def _entries(database: str) -> dict[str, Entry]:
    return _MAKERS[database]()


def dtype_of(name: str) -> torch.dtype:
    """``torch.float32`` for ``float32``.

    Raises:
        SelectionError: torch has no such dtype.
    """
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise SelectionError(f"torch has no dtype {name!r}")
    return dtype
