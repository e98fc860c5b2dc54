"""ATen graph -> decomposed ATen graph -> StableHLO text, through Torch-MLIR.

Everything here can kill the process it runs in; `lower` therefore works in a forked child (see `isolate`).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import _disable_current_modes

from . import isolate
from .constants import fold_constants
from .decompositions import decomposition_table
from .errors import LoweringError
from .graph import operator_name
from .truth_values import convert_by_integers
from .unsigned import compare_unsigned

# A call on its own has the time that the probe gives one, a graph a second more for each of its calls;
# lowering a whole tiny transformer takes well under a second.
CALL_TIMEOUT_S = 60.0
_MOST_TIMEOUT_S = 600.0

_PIPELINES = (
    "builtin.module(torchdynamo-export-to-torch-backend-pipeline{})",
    "builtin.module(torch-backend-to-stablehlo-backend-pipeline{})",
)


def lower(module: GraphModule) -> str:
    """StableHLO text of ``module``, whose placeholders carry ``meta["val"]`` and whose outputs are all
    tensors.

    Raises LoweringError; `search` finds the calls at fault.
    """
    preload()
    try:
        return str(isolate.call(lower_here, module, timeout_s=deadline_s(len(module.graph.nodes))))
    except (isolate.ChildFailedError, isolate.ChildDiedError, isolate.ChildTimeoutError) as error:
        raise LoweringError(f"the graph does not lower to StableHLO: {summarise(error)}") from None


def deadline_s(calls: int) -> float:
    """Seconds after which the lowering of ``calls`` calls is taken to have no end."""
    return min(CALL_TIMEOUT_S + calls, _MOST_TIMEOUT_S)


def preload() -> None:
    """Import what lowering needs, so that every forked child finds it there. Starts no thread and no PJRT
    client.
    """
    import torch_mlir.dialects.torch
    import torch_mlir.extras.fx_importer
    import torch_mlir.passmanager  # noqa: F401

    decomposition_table()


def lower_here(module: GraphModule) -> str:
    """As :func:`lower`, in this process, raising whatever the compiler raises - or taking the process
    down.
    """
    return to_stablehlo(decompose(module))


class RandomOperatorError(LoweringError):
    """The graph draws random numbers: an executable has no access to the device's generator."""


_VIEWS = {torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default}


_BY_POSITION = {torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_scatter.default}


def _is_whole(source: Any) -> bool:
    """Whether ``source`` holds all that it takes of its memory; what is computed must start there, too."""
    value = source.meta["val"]
    starts = source.op == "placeholder" or value.storage_offset() == 0
    return starts and is_non_overlapping_and_dense_or_false(value)


def _within(offset: int) -> int:
    if offset < 0:
        raise LoweringError("a strided view begins before the tensor that it is taken of")
    return offset


class _OnHost(Interpreter):
    """Runs a graph with every mention of a device replaced by the CPU: devices mean nothing to the
    compiler.
    """

    def run_node(self, n: Node) -> Any:
        if n.target in _BY_POSITION and _is_whole(n.args[0]):
            return self._by_position(n)
        result, traced = super().run_node(n), n.meta.get("val")
        if n.op == "call_function" and isinstance(result, torch.Tensor) and isinstance(traced, torch.Tensor):
            # The host may lay a result out otherwise, and a view further on relies on the traced layout.
            return result.contiguous() if traced.is_contiguous() else result
        return result

    def _by_position(self, node: Node) -> Any:
        """Strided views mean positions in memory: put the elements in the order they had when traced."""
        source = node.args[0]
        assert isinstance(source, Node)
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        offset = args[-1] if len(args) == len(node.target._schema.arguments) else kwargs.get("storage_offset")  # type: ignore[union-attr]
        args, kwargs = args[: len(node.target._schema.arguments) - 1], {}  # type: ignore[union-attr]
        if offset is not None:
            # It counts from where the memory begins, of which a program is given the tensor's part alone.
            kwargs = {"storage_offset": _within(offset - source.meta["val"].storage_offset())}
        stride = source.meta["val"].stride()
        order = sorted(range(len(stride)), key=lambda dim: -stride[dim])
        result = node.target(args[0].permute(order).contiguous(), *args[1:], **kwargs)  # type: ignore[operator]
        if node.target is torch.ops.aten.as_strided_scatter.default:
            return result.permute([order.index(dim) for dim in range(len(order))])
        return result

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = torch.utils._pytree.tree_map_only(
            torch.device, lambda _: torch.device("cpu"), (args, kwargs)
        )
        if isinstance(target, torch._ops.OpOverload):
            names = {argument.name for argument in target._schema.arguments}
            if "device" in names and "pin_memory" in names:
                kwargs = {**kwargs, "device": torch.device("cpu"), "pin_memory": None}
        if target in _VIEWS:
            # Strides of what is computed on the way may differ from those the graph was traced with.
            return args[0].reshape(args[1])
        return super().call_function(target, args, kwargs)


def decompose(module: GraphModule) -> GraphModule:
    """``module`` traced again on fake CPU tensors, with everything decomposed that has a decomposition."""
    # AOTAutograd's own fake mode must not be found: its tensors are on the device.
    with torch._guards.tracing(None), FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        inputs = [_host_like(node.meta["val"]) for node in module.graph.nodes if node.op == "placeholder"]
        trace = functools.partial(
            make_fx, decomposition_table=decomposition_table(), _allow_non_fake_inputs=True
        )
        run = _OnHost(module).run
        traced = trace(run)(*inputs)
        if any(_mutates(node) for node in traced.graph.nodes):
            traced = trace(torch.func.functionalize(run))(*inputs)
        _keep_precision(module, traced)
    _simplify(traced)
    _check_results(module, traced)
    _refuse_random(traced)
    return traced


def _refuse_random(module: GraphModule) -> None:
    for node in module.graph.nodes:
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            name = operator_name(node.target)
            raise RandomOperatorError(f"{name} draws from a generator, which no executable can reach")


def _keep_precision(module: GraphModule, traced: GraphModule) -> None:
    """Give results the precision they were traced with on the device, where the CPU's is another.

    PyTorch's meta functions keep the statistics of a normalisation in float32 on devices other than the CPU.
    """
    (output,) = (node for node in traced.graph.nodes if node.op == "output")
    nodes = list(output.args[0]) if isinstance(output.args[0], (list, tuple)) else [output.args[0]]
    for index, (wanted, node) in enumerate(zip(_results(module), nodes, strict=True)):
        found = node.meta["val"]
        if found.dtype != wanted.dtype and found.is_floating_point() and wanted.is_floating_point():
            with traced.graph.inserting_before(output):
                nodes[index] = traced.graph.call_function(
                    torch.ops.aten._to_copy.default, (node,), {"dtype": wanted.dtype}
                )
            nodes[index].meta["val"] = found.to(wanted.dtype)
    output.args = (tuple(nodes),)


def _check_results(module: GraphModule, traced: GraphModule) -> None:
    """A decomposition that changes what a graph returns would be read as garbage by the caller."""
    for before, after in zip(_results(module), _results(traced), strict=True):
        if (before.shape, before.dtype) != (after.shape, after.dtype):
            raise LoweringError(
                f"decomposed into {after.dtype}{[*after.shape]} for {before.dtype}{[*before.shape]}"
            )


def _results(module: GraphModule) -> list[torch.Tensor]:
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    returned = output.args[0]
    return [node.meta["val"] for node in (returned if isinstance(returned, (list, tuple)) else [returned])]


def _host_like(value: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cpu")


def _mutates(node: Node) -> bool:
    if node.target in _IDENTITIES:
        return False
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


_IDENTITIES = {
    torch.ops.aten.detach.default,
    torch.ops.aten.detach_.default,  # what torch.tensor() does with its own
    torch.ops.aten.alias.default,
    torch.ops.aten.lift_fresh_copy.default,
}


def _simplify(module: GraphModule) -> None:
    """Take out what computes nothing: identities, assertions, dead code; and name each constant once."""
    for node in list(module.graph.nodes):
        if node.target in _IDENTITIES:
            node.replace_all_uses_with(node.args[0])
            module.graph.erase_node(node)
        elif node.op == "call_function" and "assert" in str(node.target) and not node.users:
            module.graph.erase_node(node)
    fold_constants(module)
    _repeat_constants(module)
    module.graph.eliminate_dead_code()
    module.recompile()


def _repeat_constants(module: GraphModule) -> None:
    """One node for each use of a constant: the importer does not look one up that it has met."""
    for node in [node for node in module.graph.nodes if node.op == "get_attr"]:
        for user in list(node.users):
            with module.graph.inserting_before(user):
                user.replace_input_with(node, module.graph.node_copy(node))


def to_stablehlo(module: GraphModule) -> str:
    """StableHLO text of a decomposed graph; the entry function is ``main``. Raises MLIRError and others."""
    return str(legalise(module))


def legalise(module: GraphModule) -> Any:
    """The ``torch_mlir.ir.Module`` of a decomposed graph: StableHLO in one function, ``main``. Raises as
    :func:`to_stablehlo`.
    """
    from torch_mlir import ir
    from torch_mlir.dialects import torch as torch_dialect
    from torch_mlir.extras.fx_importer import FxImporter
    from torch_mlir.passmanager import PassManager

    context = ir.Context()
    context.enable_multithreading(False)
    torch_dialect.register_dialect(context)
    importer = FxImporter(context=context, hooks=_literal_hooks())
    # AOTAutograd compiles under its fake mode, and the constants are real.
    with _disable_current_modes():
        importer.import_stateless_graph(module.graph)
    with context:
        for pipeline in _PIPELINES:
            PassManager.parse(pipeline).run(importer.module.operation)
    convert_by_integers(importer.module)
    compare_unsigned(importer.module)
    return importer.module


@functools.cache
def _literal_hooks() -> Any:
    """Constants in the text itself: XLA does not read the resource blobs that Torch-MLIR would put them
    in.
    """
    import ml_dtypes
    import torch_mlir.extras.fx_importer as importer
    from torch_mlir import ir

    class DenseLiterals(importer.FxImporterHooks):
        def resolve_literal(self, gni: Any, literal: Any, info: Any) -> Any:
            if not isinstance(literal, torch.Tensor) or literal.numel() == 0:
                return None
            plain = literal.detach().contiguous().cpu()
            if plain.dtype == torch.bfloat16:
                array = plain.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
            else:
                array = plain.numpy()
            element = importer.TORCH_DTYPE_TO_MLIR_TYPE[plain.dtype]()
            value = ir.DenseElementsAttr.get(array, type=element, shape=list(plain.shape))
            result = gni._cc.tensor_to_vtensor_type(plain)
            return ir.Operation.create(
                "torch.vtensor.literal", results=[result], attributes={"value": value}
            ).result

    return DenseLiterals()


def joint_call(nodes: Sequence[Node]) -> GraphModule:
    """A graph of the calls ``nodes``, none of which reads another's result; their inputs are placeholders."""
    graph = torch.fx.Graph()
    results: list[Node] = []
    for node in nodes:
        inputs = {argument: _placeholder_like(graph, argument) for argument in node.all_input_nodes}
        copy = graph.node_copy(node, inputs.__getitem__)
        results += _tensors_of(graph, copy, node.meta.get("val"))
    graph.output(tuple(results))
    return GraphModule({}, graph)


def _placeholder_like(graph: torch.fx.Graph, node: Node) -> Node:
    placeholder = graph.placeholder(f"input_{len(graph.nodes)}")
    placeholder.meta["val"] = node.meta.get("val")
    return placeholder


def return_results(graph: torch.fx.Graph, node: Node, value: Any) -> None:
    """End ``graph`` with the tensors of ``node``, whose result looks like ``value`` (a tensor or a list of
    them).
    """
    graph.output(tuple(_tensors_of(graph, node, value)))


def _tensors_of(graph: torch.fx.Graph, node: Node, value: Any) -> list[Node]:
    if not isinstance(value, (list, tuple)):
        return [node]
    pieces = []
    for index, item in enumerate(value):
        if isinstance(item, torch.Tensor):
            piece = graph.call_function(operator.getitem, (node, index))
            piece.meta["val"] = item
            pieces.append(piece)
    return pieces


def summarise(error: BaseException, limit: int = 160) -> str:
    """The first telling line of a compiler's message, without locations and types longer than ``limit``."""
    lines: Sequence[str] = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "error:" in line or "failed to legalize" in line] or list(lines[:1])
    text = telling[0] if telling else type(error).__name__
    text = text.replace("error: unknown: ", "").split(": %", 1)[0]
    return text if len(text) <= limit else text[: limit - 1] + "…"
