"""Other ways to call the same operators: ``add.method`` is x.add(y), ``add.out`` writes into a
given tensor.

Both are derived from the declaration if its fields ``method`` and ``out`` request them: the same
draws, float64 reference, error model and tolerances. What an ``out=`` tensor held before must not
matter, and the memory around a view must stay unchanged. Only forms with code of their own are
declared: kernels that write into a destination, bindings of methods.

``tril`` and ``triu`` have no ``out=``: torch writes beyond a strided destination's end
(docs/findings.md).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch

from ..core import dtypes
from ..core.recipe import DType, Literal, TensorRecipe
from ..core.views import view_of, written
from .declare import (
    HALF,
    INTEGERS,
    REAL,
    Args,
    Call,
    ComplexVariant,
    Drawing,
    ErrorModel,
    Kwargs,
    Operator,
    Sample,
    Tensors,
)
from .variants import NO_VARIANTS, declared

# The second spelling's kernel is the operator's own in the wider format as well: float64 has no
# form of its own.
FORMATS = ("float32", *HALF, *INTEGERS)


def shape_of(call: Call, original: Operator) -> tuple[tuple[int, ...], str] | None:
    """Shape and dtype of a call's result, found without numbers; None if they depend on the
    numbers. An empty list of dims means all of them; torch's shape functions take it for none."""
    kwargs = dict(call.kwargs)
    if kwargs.get("dim") == []:
        kwargs["dim"] = list(range(empty(call.args[0]).ndim))
    try:
        result = called_without_numbers(original, call.args, kwargs)
    except (RuntimeError, ValueError, IndexError, TypeError, ZeroDivisionError):
        return None
    return (
        (tuple(result.shape), dtypes.name_of(result.dtype))
        if isinstance(result, torch.Tensor)
        else None
    )


def called_without_numbers(
    operator: Operator, args: Iterable[Any], kwargs: Mapping[str, Any]
) -> Any:
    """What the operator returns for tensors of these shapes and dtypes, to be asked for its own.

    Elementwise operators compute with ones on the CPU: many of their shape functions load torch's
    compiler, which takes a second. Raises what the operator raises.
    """
    without = ones if "elementwise" in operator.traits else empty
    return operator(
        *(without(arg) for arg in args), **{name: without(arg) for name, arg in kwargs.items()}
    )


def empty(arg: Any) -> Any:
    """The argument with meta tensors, which hold no numbers."""

    def tensor(recipe: TensorRecipe | Literal) -> torch.Tensor:
        meta = functools.partial(torch.empty, dtype=dtypes.TORCH[recipe.dtype], device="meta")
        if isinstance(recipe, Literal):
            return meta(recipe.shape)
        return view_of(meta(math.prod(recipe.base)), recipe)

    return _with_tensors(arg, tensor)


def ones(arg: Any) -> Any:
    """The argument with tensors of the same shapes and dtypes that hold ones."""
    return _with_tensors(
        arg, lambda recipe: torch.ones(empty(recipe).shape, dtype=dtypes.TORCH[recipe.dtype])
    )


def _with_tensors(arg: Any, tensor: Callable[[TensorRecipe | Literal], torch.Tensor]) -> Any:
    match arg:
        case TensorRecipe() | Literal():
            return tensor(arg)
        case DType(name):
            return dtypes.TORCH[name]
        case tuple() | list():
            return type(arg)(_with_tensors(item, tensor) for item in arg)
        case dict():
            return {key: _with_tensors(item, tensor) for key, item in arg.items()}
    return arg


def with_destination(original: Operator, d: Drawing) -> Call:
    """The operator's arguments after a destination: a fresh tensor, a view that fits, or an empty
    tensor that is resized."""
    call = original.sample(d)
    if original.name == "bucketize" and isinstance(call.args[0], (int, float)):
        # torch has no form with out= that takes a number.
        call = Call((d.tensor((), values=("integers", -8, 8)), *call.args[1:]), call.kwargs)
    expected = shape_of(call, original)
    shape, dtype = expected if expected is not None else ((0,), d.dtype)
    kind = d.choice("fresh", "view", "view", "empty") if expected is not None else "empty"
    if kind == "empty":
        shape = (0,)
    values = None if dtypes.floats(dtype) or dtype == "bool" else ("integers", -9, 9)
    out = d.tensor(shape, REAL, dtype=dtype, values=values, layout=kind == "view", overlap=False)
    return Call((out, *call.args), call.kwargs)


def writing(original: Operator, out: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    if not out.numel():
        out = out.new_empty(0)  # to be resized, which the memory behind a recipe's tensor cannot be
    result = original(*args, **kwargs, out=out)
    if result is not out:
        raise RuntimeError(
            f"what was returned is not the tensor given as out, {_left(out, result)}"
        )
    return result


def _left(out: torch.Tensor, result: Any) -> str:
    """What became of a destination that was not returned."""
    if not isinstance(result, torch.Tensor):
        return f"but a {type(result).__name__}"
    if out.shape != result.shape:
        return f"which keeps its shape {list(out.shape)} where the result has {list(result.shape)}"
    same = torch.equal(torch.nan_to_num(out.cpu()), torch.nan_to_num(result.cpu()))
    return "which holds the same numbers" if same else "which was not written"


def copying(reference: Callable[..., Any], out: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """What ``out`` must hold: the plain call's result. torch's own ``out=`` loses some writes
    (docs/findings.md)."""
    result = reference(*args, **kwargs)
    return out.copy_(result) if out.shape == result.shape else result


def behind(error: ErrorModel, leading: int = 1) -> ErrorModel:
    """The model for arguments that begin with a destination (the one of ``leading``), and for the
    memory around it."""
    if error.kind == "exact":
        return error

    def terms(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
        return error.terms(args[leading:], kwargs, outputs)

    magnitude = error.magnitude
    if not callable(magnitude):
        return replace(error, terms=terms)

    def size(args: Args, kwargs: Kwargs, outputs: Tensors) -> Any:
        assert callable(magnitude)
        sizes = magnitude(args[leading:], kwargs, outputs)
        sizes = sizes[0] if isinstance(sizes, (tuple, list)) else sizes
        finite = torch.nan_to_num(torch.as_tensor(sizes, dtype=torch.float64), nan=0.0, posinf=0.0)
        return [sizes, float(finite.max()) if finite.numel() else 0.0]

    return replace(error, magnitude=size, terms=terms)


def also_written(
    alternatives: Callable[..., Any],
    args: Args,
    kwargs: Kwargs,
    outputs: Tensors,
    leading: int = 1,
) -> list[Tensors]:
    """Further admissible results, each with the contents of ``out``'s memory; a resized ``out`` is
    left out."""
    out, other_outputs = args[0], outputs[1:]
    sizes = []
    for result, *_ in alternatives(args[leading:], kwargs, outputs[:1]):
        fits = out.shape == result.shape
        sizes.append(
            (result, *(written(other, out, result) if fits else other for other in other_outputs))
        )
    return sizes


def _behind_complex(original: Operator) -> ErrorModel:
    """The model behind a destination, also of complex operands."""
    error, variant = behind(original.error), original.complex
    if not isinstance(variant, ComplexVariant) or variant.error is None:
        return error
    return replace(error, in_complex=behind(variant.error))


def out_form(original: Operator) -> Operator:
    return replace(
        original, name=f"{original.name}.out", family="forms", form_of=original, mutates=(0,),
        differentiable=False,
        function=functools.partial(writing, original) if original.callable is not None else None,
        sample=functools.partial(with_destination, original), error=_behind_complex(original),
        observe=None,
        dtypes=tuple(dtype for dtype in FORMATS if dtype in original.dtypes), leading=1,
        whole=tuple(1 + position for position in original.whole),
        reference=functools.partial(copying, original.reference or original),
        alternatives=None if original.alternatives is None else functools.partial(also_written,
        original.alternatives),
        unspecified_aliasing="",  # it returns the destination
        **NO_VARIANTS,
    )  # fmt: skip


def tensor_first(original: Operator) -> Sample:
    """A method needs a tensor to the left of its dot."""

    def sample(d: Drawing) -> Call:
        call = original.sample(d)
        if isinstance(call.args[0], (TensorRecipe, Literal)):
            return call
        raise TypeError(f"{original.name} was drawn with a number first: it is no method")

    return sample


def method_form(original: Operator) -> Operator:
    return replace(
        original, name=f"{original.name}.method", family="forms", form_of=original,
        sample=tensor_first(original),
        function=getattr(torch.Tensor, original.name.rpartition(".")[2], None),
        dtypes=tuple(dtype for dtype in FORMATS if dtype in original.dtypes), **NO_VARIANTS,
    )  # fmt: skip


OPERATORS = [
    *(out_form(operator) for operator in declared() if operator.out),
    *(method_form(operator) for operator in declared() if operator.method),
]
