"""MT19937 in StableHLO: a program of the generator's numbers becomes one of the generator's state.

The generator (M. Matsumoto and T. Nishimura, "Mersenne Twister", 1998) is 624 words and the place of the next
one among them; ATen/core/MT19937RNGEngine.h has the CPU's. Torch-MLIR leaves loops alone, so the loop over
blocks of 624 words is written here, around what Torch-MLIR has made: text of the same length for a handful of
numbers and for millions.
"""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule

from .lowering import legalise

WORDS = 624
_AHEAD = 397
# Each word needs that many-th one before it, so the words of a block come in three pieces.
_PIECE = WORDS - _AHEAD
_REST = WORDS - 2 * _PIECE

_STATE = f"tensor<{WORDS}xi64>, tensor<i64>"
_BLOCK = f"tensor<{WORDS}xui32>"


def to_stablehlo_with_state(module: GraphModule) -> str:
    """StableHLO text of a decomposed graph whose first placeholder is random numbers: int64 [count], 32 bits
    each.

    In its place ``main`` takes the generator's words (int64 [624], below 2^32) and the place of the next
    (int64, 0 to 624; 624: none is left), and returns both, as they are after ``count`` numbers, behind the
    graph's results. Raises as `lowering.to_stablehlo`.
    """
    from torch_mlir import ir

    legal = legalise(module)
    (function,) = legal.body.operations
    signature = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    numbers, *inputs = signature.inputs
    results = list(signature.results)
    with legal.context:
        function.attributes["sym_name"] = ir.StringAttr.get("values")
        function.attributes["sym_visibility"] = ir.StringAttr.get("private")
    (count,) = ir.RankedTensorType(numbers).shape
    main = _main(numbers, inputs, results)
    functions = [str(function), _twist(_PIECE), _twist(_REST), _next_block(), _draw(count), main]
    return "\n".join(["module {", *functions, "}"])


def _main(numbers: Any, inputs: list[Any], results: list[Any]) -> str:
    named = "".join(f", %input{index}: {kind}" for index, kind in enumerate(inputs))
    given = "".join(f", %input{index}" for index in range(len(inputs)))
    kinds = ", ".join(map(str, results))
    computed = ", ".join(f"%computed#{index}" for index in range(len(results)))
    return f"""
  func.func @main(%words: tensor<{WORDS}xi64>, %place: tensor<i64>{named}) -> ({kinds}, {_STATE}) {{
    %drawn:3 = call @draw(%words, %place) : ({_STATE}) -> ({numbers}, {_STATE})
    %computed:{len(results)} = call @values(%drawn#0{given})
        : ({", ".join(map(str, [numbers, *inputs]))}) -> ({kinds})
    return {computed}, %drawn#1, %drawn#2 : {kinds}, {_STATE}
  }}"""


def _twist(size: int) -> str:
    """A function: the next words of ``size`` neighbours, of their successors and of those far ahead."""
    kind = f"tensor<{size}xui32>"
    return f"""
  func.func private @twist{size}(%word: {kind}, %successor: {kind}, %ahead: {kind}) -> {kind} {{
    %highest = stablehlo.constant dense<0x80000000> : {kind}
    %others = stablehlo.constant dense<0x7FFFFFFF> : {kind}
    %one = stablehlo.constant dense<1> : {kind}
    %matrix = stablehlo.constant dense<0x9908B0DF> : {kind}
    %upper = stablehlo.and %word, %highest : {kind}
    %lower = stablehlo.and %successor, %others : {kind}
    %mixed = stablehlo.or %upper, %lower : {kind}
    %half = stablehlo.shift_right_logical %mixed, %one : {kind}
    %odd = stablehlo.and %successor, %one : {kind}
    %row = stablehlo.multiply %odd, %matrix : {kind}
    %sum = stablehlo.xor %half, %row : {kind}
    %next = stablehlo.xor %sum, %ahead : {kind}
    return %next : {kind}
  }}"""


def _slice(result: str, source: str, start: int, end: int, size: int = WORDS) -> str:
    kinds = f"(tensor<{size}xui32>) -> tensor<{end - start}xui32>"
    return f"    %{result} = stablehlo.slice %{source} [{start}:{end}] : {kinds}"


def _next_block() -> str:
    """A function: the block after a block. No piece needs what comes behind it."""
    piece, rest = f"tensor<{_PIECE}xui32>", f"tensor<{_REST}xui32>"
    return f"""
  func.func private @next(%old: {_BLOCK}) -> {_BLOCK} {{
{_slice("word0", "old", 0, _PIECE)}
{_slice("successor0", "old", 1, _PIECE + 1)}
{_slice("ahead0", "old", _AHEAD, WORDS)}
    %new0 = call @twist{_PIECE}(%word0, %successor0, %ahead0) : ({piece}, {piece}, {piece}) -> {piece}
{_slice("word1", "old", _PIECE, 2 * _PIECE)}
{_slice("successor1", "old", _PIECE + 1, 2 * _PIECE + 1)}
    %new1 = call @twist{_PIECE}(%word1, %successor1, %new0) : ({piece}, {piece}, {piece}) -> {piece}
{_slice("word2", "old", 2 * _PIECE, WORDS)}
{_slice("inner", "old", 2 * _PIECE + 1, WORDS)}
{_slice("first", "new0", 0, 1, _PIECE)}
    %successor2 = stablehlo.concatenate %inner, %first, dim = 0
        : (tensor<{_REST - 1}xui32>, tensor<1xui32>) -> {rest}
{_slice("ahead2", "new1", 0, _REST, _PIECE)}
    %new2 = call @twist{_REST}(%word2, %successor2, %ahead2) : ({rest}, {rest}, {rest}) -> {rest}
    %new = stablehlo.concatenate %new0, %new1, %new2, dim = 0 : ({piece}, {piece}, {rest}) -> {_BLOCK}
    return %new : {_BLOCK}
  }}"""


def _tempered(kind: str) -> str:
    """%word -> %number, of type ``kind``."""
    steps = [
        ("shift_right_logical", 11, 0xFFFFFFFF),
        ("shift_left", 7, 0x9D2C5680),
        ("shift_left", 15, 0xEFC60000),
        ("shift_right_logical", 18, 0xFFFFFFFF),
    ]
    lines, word = [], "%word"
    for index, (shift, bits, mask) in enumerate(steps):
        after = "%number" if index == len(steps) - 1 else f"%word{index}"
        lines += [
            f"%bits{index} = stablehlo.constant dense<{bits}> : {kind}",
            f"%mask{index} = stablehlo.constant dense<{mask}> : {kind}",
            f"%shifted{index} = stablehlo.{shift} {word}, %bits{index} : {kind}",
            f"%masked{index} = stablehlo.and %shifted{index}, %mask{index} : {kind}",
            f"{after} = stablehlo.xor {word}, %masked{index} : {kind}",
        ]
        word = after
    return "\n".join(f"    {line}" for line in lines)


def _draw(count: int) -> str:
    """A function: the next ``count`` numbers, and the state behind them.

    All words are kept, the block that the state had first. The block of the last word read is the state's
    new one: its end is not yet the start of the next, as on the CPU.
    """
    total = (-(-count // WORDS) + 1) * WORDS
    stream, numbers = f"tensor<{total}xui32>", f"tensor<{count}xui32>"
    return f"""
  func.func private @draw(%words: tensor<{WORDS}xi64>, %place: tensor<i64>)
      -> (tensor<{count}xi64>, {_STATE}) {{
    %start = stablehlo.constant dense<0> : tensor<i64>
    %one = stablehlo.constant dense<1> : tensor<i64>
    %size = stablehlo.constant dense<{WORDS}> : tensor<i64>
    %total = stablehlo.constant dense<{total}> : tensor<i64>
    %count = stablehlo.constant dense<{count}> : tensor<i64>
    %nothing = stablehlo.constant dense<0> : tensor<ui32>
    %empty = stablehlo.broadcast_in_dim %nothing, dims = [] : (tensor<ui32>) -> {stream}
    %block = stablehlo.convert %words : (tensor<{WORDS}xi64>) -> {_BLOCK}
    %begun = stablehlo.dynamic_update_slice %empty, %block, %start
        : ({stream}, {_BLOCK}, tensor<i64>) -> {stream}
    %made:3 = stablehlo.while(%at = %size, %old = %block, %all = %begun) : tensor<i64>, {_BLOCK}, {stream}
    cond {{
      %more = stablehlo.compare LT, %at, %total : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    }} do {{
      %new = func.call @next(%old) : ({_BLOCK}) -> {_BLOCK}
      %longer = stablehlo.dynamic_update_slice %all, %new, %at
          : ({stream}, {_BLOCK}, tensor<i64>) -> {stream}
      %behind = stablehlo.add %at, %size : tensor<i64>
      stablehlo.return %behind, %new, %longer : tensor<i64>, {_BLOCK}, {stream}
    }}
    %word = stablehlo.dynamic_slice %made#2, %place, sizes = [{count}] : ({stream}, tensor<i64>) -> {numbers}
{_tempered(numbers)}
    %drawn = stablehlo.convert %number : ({numbers}) -> tensor<{count}xi64>
    %end = stablehlo.add %place, %count : tensor<i64>
    %last = stablehlo.subtract %end, %one : tensor<i64>
    %full = stablehlo.divide %last, %size : tensor<i64>
    %first = stablehlo.multiply %full, %size : tensor<i64>
    %after = stablehlo.dynamic_slice %made#2, %first, sizes = [{WORDS}] : ({stream}, tensor<i64>) -> {_BLOCK}
    %wide = stablehlo.convert %after : ({_BLOCK}) -> tensor<{WORDS}xi64>
    %next = stablehlo.subtract %end, %first : tensor<i64>
    return %drawn, %wide, %next : tensor<{count}xi64>, {_STATE}
  }}"""
