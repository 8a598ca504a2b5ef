"""The right computation with another argument: a flag flipped, an option at its default, an
optional tensor omitted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ...generate.materialize import Arguments
from .simulation import FaultHypothesis, Hypotheses, Predicted, Simulation

Change = Callable[[Arguments], tuple[list[Any], dict[str, Any]]]
# Options that calls usually omit, with values that a faulty backend may assume.
UNSAID: dict[str, tuple[Any, ...]] = {
    "align_corners": (True,), "count_include_pad": (False,), "ceil_mode": (True,),
    "unbiased": (False,), "correction": (0,),
    "approximate": ("tanh",), "is_causal": (True,), "scale": (1.0,), "training": (True, False),
    "descending": (True,),
    "largest": (False,), "upper": (True,), "reduction": ("sum", "mean"), "beta": (0.0,),
    "alpha": (1.0,),
    "eps": (0.0, 1e-5, 1e-8, 1e-3), "momentum": (0.0, 1.0), "rounding_mode": (None, "floor",
    "trunc"), "diagonal": (0, 1, -1),
    "norm": ("ortho", "forward"), "label_smoothing": (0.0,), "padding_mode": ("zeros", "border"),
    "weight": (None,),
    "bias": (None,), "stride": (1,), "padding": (0,), "dilation": (1,), "output_padding": (0,),
}  # fmt: skip
WORDS = (
    "mean", "sum", "none", "bilinear", "nearest", "nearest-exact", "bicubic", "area", "tanh",
    "floor", "trunc", "constant",
    "reflect", "zeros", "border", "reflection",
)  # fmt: skip


def hypotheses(context: Simulation) -> Hypotheses:
    case = context.reference.materials.case
    arguments = context.reference.arguments
    options = functools.partial(context.with_call, _tensors_only)
    yield FaultHypothesis("argument-ignored", "an option that is not used", options)
    for place, value in enumerate(arguments.args):
        for other, words in _others(value, f"argument {place}", context.distinct):
            yield _hypothesis(context, place, other, words)
    for name, value in arguments.kwargs.items():
        for other, words in _others(value, name, context.distinct):
            yield _hypothesis(context, name, other, words)
        yield _hypothesis(context, name, None, f"{name} not used")
    for name, values in UNSAID.items():
        if name not in case.kwargs:
            for other in values:
                yield _hypothesis(context, name, other, f"{name} taken as {other!r}")


def _hypothesis(context: Simulation, place: int | str, value: Any, words: str) -> FaultHypothesis:
    replace = functools.partial(_replace_argument, place, value)
    return FaultHypothesis("argument-ignored", words, functools.partial(_call, context, replace))


def _call(context: Simulation, replace: Change) -> Predicted:
    """The outputs of another call; nothing if one of the others shows that it was not made."""
    predicted = context.with_call(replace)
    return predicted if context.agrees_elsewhere(predicted) else []


def _tensors_only(arguments: Arguments) -> tuple[list[Any], dict[str, Any]]:
    count = next(
        (i for i, arg in enumerate(arguments.args) if not isinstance(arg, torch.Tensor)),
        len(arguments.args),
    )
    return list(arguments.args[:count]), {}


def _replace_argument(
    place: int | str, value: Any, arguments: Arguments
) -> tuple[list[Any], dict[str, Any]]:
    args, kwargs = list(arguments.args), dict(arguments.kwargs)
    current = args[place] if isinstance(place, int) else kwargs.get(place)
    new_value = value(current) if callable(value) else value
    if isinstance(place, int):
        args[place] = new_value
    else:
        kwargs[place] = new_value
    return args, kwargs


def _others(value: Any, name: str, distinct: int) -> Iterator[tuple[Any, str]]:
    """Values that a faulty backend might use instead of ``value``, each with a description.

    ``distinct`` is the number of distinct wrong values: a single one could come from many tensors.
    """
    match value:
        case bool():
            yield not value, f"{name} taken as {not value}"
        case int():
            for other in dict.fromkeys((0, 1, 2, value + 1, value - 1, -value)):
                if other != value:
                    yield other, f"{name} taken as {other}"
        case float():
            for other in dict.fromkeys(
                (
                    0.0,
                    1.0,
                    2.0,
                    -value,
                    value * value,
                    abs(value) ** 0.5,
                    1e-5,
                    1e-8,
                    0.1,
                    2.0 * value,
                    0.5 * value,
                )
            ):
                if other != value:
                    yield other, f"{name} taken as {other:g}"
        case str():
            yield None, f"{name} taken as None"
            for word in WORDS:
                if word != value:
                    yield word, f"{name} taken as {word!r}"
        case list() | tuple() if value and all(type(item) is int for item in value):
            kind = type(value)
            for single in (0, 1):
                yield kind([single] * len(value)), f"{name} taken as {single}"
            if len(value) > 1:
                yield kind(value[::-1]), f"{name} the wrong way round"
                yield kind([value[0]] * len(value)), f"the first of {name} taken for all"
        case torch.Tensor():
            yield from _other_tensors(value, name, distinct)


def _other_tensors(value: torch.Tensor, name: str, distinct: int) -> Iterator[tuple[Any, str]]:
    yield None, f"{name} not used"
    if value.dtype == torch.bool:
        yield torch.logical_not, f"{name} inverted"
    if distinct < 2:
        return
    yield torch.zeros_like, f"{name} taken as zeros"
    yield torch.ones_like, f"{name} taken as ones"
    if value.numel() > 1:
        yield _first_everywhere, f"the first element of {name} taken for all"


def _first_everywhere(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1)[:1].expand(tensor.numel()).reshape(tensor.shape).clone()
