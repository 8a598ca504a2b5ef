"""One failing result as text and as tensors, for people and for bundles."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..backends.origins import UNNAMED
from ..core import recipe
from ..core.case_source import YOURS, parse_source
from ..core.detail import ReferenceWrong
from ..core.dtypes import FORMATS
from ..core.model import Result, Worst
from ..core.text import format_factor, one_line, quote
from ..core.verdict import VerdictKind

if TYPE_CHECKING:
    import torch

MAX_TENSOR_BYTES = 64 << 20
MAX_HEADLINE = 120  # characters
MAX_CALL = 140  # characters of the call's line
MILLION = 1_000_000
_SIZE_AND_REST = re.compile(r"(.*? × budget)[:;] (.+)", re.DOTALL)
# Decimal digits that distinguish neighboring numbers.
_DIGITS = {"float64": 17, "float32": 9, "float16": 5, "bfloat16": 4}


def headline(result: Result) -> str:
    """``nn.functional.gelu · float32 · forward · cuda   divergent: 1,400 × budget: TF32 inputs
    explain 99%``: what is longer than a line of a terminal is left to :func:`message`."""
    short, cause = _short_headline(result), reasons(result)[0]
    with_cause = f"{short}: {cause}"
    return with_cause if cause and len(with_cause) <= MAX_HEADLINE else short


def _short_headline(result: Result) -> str:
    return f"{_place(result)}{_size_and_note(result)[0]}"


def _place(result: Result) -> str:
    """How a headline begins: operator, dtype, direction, backend, and verdict."""
    where = f"{result.operator} · {result.dtype} · {result.direction} · {result.backend}"
    return f"{where}   {result.verdict}: "


def reasons(result: Result) -> tuple[str, str]:
    """The cause and the cure in words, empty where none was found."""
    evidence = result.evidence
    cause = str(evidence.cause) if evidence is not None and evidence.cause is not None else ""
    return cause, result.workaround


def _size_and_note(result: Result) -> tuple[str, str]:
    """The explanation without cause and cure; where these, or the room, ask for it, in two: how
    large the error is, and what else was found."""
    cause, cure = reasons(result)
    text = result.explanation
    known = [words for words in (cause, cure and f"{cure} makes it vanish") if words in text]
    for words in filter(None, known):
        text = text.replace(f": {words}; ", ": ", 1).replace(f"; {words}", "", 1)
        text = text.replace(f": {words}", "", 1)
    apart = _SIZE_AND_REST.match(text)
    if apart is None or not (any(known) or len(_place(result)) + len(text) > MAX_HEADLINE):
        return text, ""
    return apart[1], apart[2]


def split_headline(result: Result) -> tuple[str, str]:
    """``("1,400 × budget", "TF32 inputs explain 99%")``: the size of the error and the rest of the
    explanation; within budget, the verdict and the explanation."""
    rho = result.metrics.get("rho_max", math.nan)
    if not rho > 1.0:
        return result.verdict.value, result.explanation
    size = f"{format_factor(rho)} × budget"
    rest = result.explanation.removeprefix(size).lstrip(":; ").rstrip()
    return size, rest or result.verdict.value


def message(
    result: Result, *, bundle: Path | None = None, spec: str | None = None, again: bool = True,
    cause: str | None = None, smallest: Result | None = None,
) -> str:  # fmt: skip
    """One failure in a few lines, ending with the command that reproduces it.

    ``spec`` is the backend's spec, if it is not its name. ``again=False`` omits the command.
    ``cause`` in words replaces the result's own: that of many cases. ``smallest``: a smaller case
    that fails alike, whose numbers, call and command follow in lines of their own.
    """
    own, cure = reasons(result)
    cause = own if cause is None else cause
    facts = [("cause", cause), ("cure", cure), ("note", _size_and_note(result)[1])]
    lines = [_short_headline(result)]
    if smallest is not None:
        small, alike = _size_and_note(smallest)[0], result.dtype == smallest.dtype
        where = "" if alike else f"{smallest.dtype} · {smallest.direction}   "
        facts.append(("small", f"{where}{smallest.verdict}: {small}"))
    lines += [f"  {name + ':':<8} {text}" for name, text in facts if text]
    result = smallest or result
    lines += details(result)
    if again and parse_source(result.case.source).kind != YOURS:
        lines.append(f"  again:   {command(result, bundle=bundle, spec=spec)}")
        lines += [f"           {note}" for note in [unnamed_note(result, spec)] if note]
    return "\n".join(map(one_line, lines))


def details(result: Result) -> list[str]:
    """The lines about the worst element, the size of the error, and the call."""
    lines = []
    if result.worst is not None:
        where = f"at {result.worst.index}" if result.worst.index else "(the only element)"
        values = values_of(result.worst, dtype_of(result))
        if isinstance(result.detail, ReferenceWrong):
            values = values.replace("float64 says", "right is")
        lines.append(f"  worst {where} of {_what(result.output or 'out/0')}: {values}")
    if result.verdict.kind is VerdictKind.DIVERGENT:
        lines += size_of(result)
    return [*lines, f"  call:    {_call(result)}"]


def _what(output: str) -> str:
    """The name of an output; of numbers that an operator's declaration derives from its outputs,
    such as whether a position is the first of equal ones, what these are, too."""
    return f"what follows from the outputs ({output})" if output.startswith("seen/") else output


def dtype_of(result: Result) -> str:
    """The dtype of the output with the worst element."""
    outputs = result.comparison.outputs if result.comparison is not None else ()
    return next((output.dtype for output in outputs if output.name == result.output), result.dtype)


def values_of(worst: Worst, dtype: str) -> str:
    """``got 1.0371094, float64 says 1.0000012``, with the digits of the dtype, or more if these do
    not show a difference."""
    digits = _DIGITS.get(dtype, 17)
    got, expected = (
        f"{_restore_infinity(worst.actual, dtype):.{digits}g}",
        f"{worst.expected:.{digits}g}",
    )
    if got == expected:
        got, expected = repr(worst.actual), repr(worst.expected)
    return f"got {got}, float64 says {expected}"


def _restore_infinity(number: float, dtype: str) -> float:
    """The number, or infinity if it was stored as the power of two at which the dtype overflows."""
    form = FORMATS.get(dtype)
    return (
        math.copysign(math.inf, number)
        if form is not None and abs(number) == form.overflow
        else number
    )


def size_of(result: Result) -> Iterator[str]:
    """The largest error in ulp, and the RMS error relative to the CPU's in the same dtype."""
    ulp = result.metrics.get("ulp_max")
    if not ulp:
        return
    form = FORMATS.get(dtype_of(result))
    text = (
        "not one digit is right"
        if form is not None and ulp >= 2.0**form.precision
        else f"largest error {format_factor(ulp)} ulp"
    )
    ratio = result.metrics.get("rmse_ratio", 1.0)
    if result.backend == "cpu" or result.dtype == "float64" or 0.95 < ratio < 1.05:
        against = ""  # the same backend, or no notable difference
    elif ratio >= MILLION:
        against = f"; the CPU in {result.dtype} makes no such error here"
    else:
        against = f"; RMS error {format_factor(ratio)} × that of the CPU in {result.dtype}"
    yield f"  {text}{against}"


def _call(result: Result) -> str:
    """The call with shapes for tensors: ``softmax([3, 4] strides [1, 3] offset 0, -1)``."""
    shapes = iter(result.shapes)

    def show(arg: recipe.Arg) -> str:
        match arg:
            case recipe.TensorRecipe() | recipe.Literal():
                shape = next(shapes, "tensor")
                return "0-d tensor" if shape == "[]" else shape
            case list():
                return f"[{', '.join(map(show, arg))}]"
            case tuple():
                return f"({', '.join(map(show, arg))}{',' if len(arg) == 1 else ''})"
            case recipe.DType(name) | recipe.MemoryFormat(name):
                return f"torch.{name}"
            case recipe.Index(start, stop, step):
                return f"slice({start}, {stop}, {step})"
        return repr(arg)

    parts = [show(arg) for arg in result.case.args]
    parts += [f"{name}={show(arg)}" for name, arg in result.case.kwargs.items()]
    text = f"{result.operator}({', '.join(parts)})"
    return text if len(text) <= MAX_CALL else f"{text[: MAX_CALL - 1]}…"


def command(result: Result, *, bundle: Path | None = None, spec: str | None = None) -> str:
    """The command that runs this case again, by its folder if the bundle has one, else by its
    line."""
    from ..storage.bundle import failure_id

    if result.recorded_id:
        return f"consistency judge {quote(spec or 'RECORDING')} --id {quote(result.recorded_id)}"
    folder = bundle / "failures" / failure_id(result) if bundle is not None else None
    where = quote(
        str(folder) if folder is not None and (folder / "case.json").is_file() else result.case.line
    )
    return (
        f"consistency repro {where} --backend {quote(spec_of(result, spec))} --direction "
        f"{result.direction}"
    )


def spec_of(result: Result, spec: str | None) -> str:
    """What a command calls the result's backend: its spec, or its name; of an object that only the
    program has, ``FILE.py:NAME``."""
    from .. import backends

    return spec or (result.backend if backends.is_spec(result.backend) else UNNAMED)


def unnamed_note(result: Result, spec: str | None) -> str:
    """What to put in the place of ``FILE.py:NAME``; empty if the command has a backend."""
    if result.recorded_id or spec_of(result, spec) != UNNAMED:
        return ""
    return f"{UNNAMED} is where {one_line(result.backend, 40)!r}, an object of the program, is made"


def tensors_of(result: Result) -> bytes:
    """The inputs (base storages) and the float64 reference of a failing case as safetensors;
    nothing if they are large. There is no reference where the call ended a process, or did not
    return: the CPU's may do so, too, and this process has others to write."""
    from safetensors.torch import save

    from .. import operators
    from ..generate.calls.case_operator import operator_of
    from ..generate.materialize import prepare
    from ..reference import Reference, quiet

    materials = prepare(result.case)
    if sum(base.nbytes for base in materials.bases) > MAX_TENSOR_BYTES:
        return b""
    tensors: dict[str, torch.Tensor] = {
        f"base/{i}": _parts(t) for i, t in enumerate(materials.build().bases)
    }
    returns = result.verdict.kind not in (VerdictKind.CRASH, VerdictKind.TIMEOUT)
    if returns and (result.case.source or result.operator in operators.registry()):
        with quiet():
            reference = Reference(operator_of(result.case), materials, result.direction)
        for output in reference.outcome.outputs:
            if output.tensor is not None:
                tensors[f"reference/{output.name}"] = (
                    _parts(output.tensor.detach()).contiguous().clone()
                )
    return save(tensors, metadata=_metadata(result))


def _parts(tensor: torch.Tensor) -> torch.Tensor:
    """Complex numbers as pairs, for older readers of safetensors."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _metadata(result: Result) -> dict[str, Any]:
    return {
        "case": result.case.id,
        "operator": result.operator,
        "dtype": result.dtype,
        "sha256": result.sha256,
    }
