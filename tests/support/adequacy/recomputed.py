"""Faults that need another call of the operator: inputs that are misread, arguments that are
ignored."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from consistency.backends.base import attempt
from consistency.backends.cpu import Cpu
from consistency.core.dtypes import floats
from consistency.core.model import Case, Outcome
from consistency.core.recipe import TensorRecipe
from consistency.engine.argument_coverage import defaults
from consistency.judge.known.argument_names import position_of
from consistency.operators.declare import Operator

from .model import Fault, Healthy

Misread = Callable[[torch.Tensor, int], torch.Tensor]
_ORDINARY = ("uniform", "normal", "integers")
_WHOLE = (torch.int8, torch.int16, torch.int32, torch.uint8)


class _Misreading(Cpu):
    """torch's CPU on tensors that were misread; ``misread`` is told which argument it is."""

    def __init__(self, misread: Misread) -> None:
        super().__init__()
        self._misread = misread

    def call(self, operator: Operator, args: Any, kwargs: Any) -> Any:
        number = iter(range(1 << 16))

        def swap(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return self._misread(value, next(number))
            if isinstance(value, (list, tuple)):
                return type(value)([swap(item) for item in value])
            return value

        return super().call(
            operator, [swap(a) for a in args], {k: swap(v) for k, v in kwargs.items()}
        )


def _numbers_of(healthy: Healthy, other: Outcome) -> Outcome | None:
    """The healthy outcome with the numbers of another call; None if they do not fit."""
    tensors = [output.tensor for output in other.outputs]
    if not other.ok or len(tensors) != len(healthy.tensors):
        return None
    return healthy.with_tensors(tensors)


def misread(healthy: Healthy, how: Misread) -> Outcome | None:
    if healthy.operator.mutates:
        return None
    backend = _Misreading(how)
    return _numbers_of(
        healthy, attempt(backend, healthy.operator, healthy.materials, healthy.direction)
    )


def as_contiguous(tensor: torch.Tensor, number: int) -> torch.Tensor:
    """The elements that follow in memory, whatever the strides say."""
    if tensor.is_contiguous() or not tensor.numel() or tensor.is_conj() or tensor.is_neg():
        return tensor
    stored = tensor.untyped_storage().nbytes() // tensor.element_size()
    there = stored - tensor.storage_offset()
    if there < 1:
        return tensor
    flat = tensor.as_strided((there,), (1,), tensor.storage_offset())
    return flat[torch.arange(tensor.numel()) % there].reshape(tensor.shape)


def from_the_beginning(tensor: torch.Tensor, number: int) -> torch.Tensor:
    """The storage offset is ignored."""
    if not tensor.storage_offset() or tensor.is_conj() or tensor.is_neg():
        return tensor
    return tensor.as_strided(tensor.shape, tensor.stride(), 0)


def operand_reversed(tensor: torch.Tensor, number: int) -> torch.Tensor:
    """The second operand and further ones are read along the wrong direction."""
    return tensor.flip(-1) if number and tensor.ndim else tensor


def first_element(tensor: torch.Tensor, number: int) -> torch.Tensor:
    """Of the second operand and further ones only the first element is read."""
    if not number or tensor.numel() < 2 or tensor.dtype == torch.bool:
        return tensor
    return tensor.reshape(-1)[:1].reshape([1] * tensor.ndim).expand_as(tensor).clone()


def without_mask(tensor: torch.Tensor, number: int) -> torch.Tensor:
    return torch.ones_like(tensor) if tensor.dtype == torch.bool else tensor


def bits_lost(tensor: torch.Tensor, number: int) -> torch.Tensor:
    """Conjugate and negative bits are ignored."""
    if tensor.is_complex() and tensor.is_conj():
        return tensor.conj().clone()
    return tensor._neg_view().clone() if tensor.is_neg() else tensor


def magnitude(tensor: torch.Tensor, number: int) -> torch.Tensor:
    whole = tensor.dtype in (*_WHOLE, torch.int64)
    return tensor if tensor.dtype == torch.bool or (whole and number) else tensor.abs()


def eight_bits(tensor: torch.Tensor, number: int) -> torch.Tensor:
    """Inputs in bfloat16; those in bfloat16 lose half of their bits."""
    if not tensor.is_floating_point():
        return tensor
    if tensor.dtype == torch.bfloat16:
        mantissa, exponent = torch.frexp(tensor.float())
        return torch.ldexp((mantissa * 16).round() / 16, exponent).to(tensor.dtype)
    return tensor.to(torch.bfloat16).to(tensor.dtype)


def not_a_number(tensor: torch.Tensor, number: int) -> torch.Tensor:
    """NaN among the inputs is taken for 0."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return tensor
    return torch.where(tensor.isnan(), torch.zeros((), dtype=tensor.dtype), tensor)


def small_is_zero(tensor: torch.Tensor, number: int) -> torch.Tensor:
    if not tensor.is_floating_point():
        return tensor
    return torch.where(tensor.abs() < torch.finfo(tensor.dtype).tiny, tensor * 0, tensor)


def saturated(healthy: Healthy) -> Outcome | None:
    """Whole numbers stop at the ends of their range instead of wrapping around."""
    found = [t for t in healthy.tensors if t is not None]
    if not found or any(t.dtype not in _WHOLE for t in found) or healthy.operator.mutates:
        return None

    def wide(tensor: torch.Tensor, number: int) -> torch.Tensor:
        return tensor.to(torch.int64) if tensor.dtype in _WHOLE else tensor

    other = attempt(_Misreading(wide), healthy.operator, healthy.materials, healthy.direction)
    if not other.ok or len(other.outputs) != len(found):
        return None
    tensors = []
    for output, tensor in zip(other.outputs, found, strict=True):
        ends = torch.iinfo(tensor.dtype)
        if output.tensor is None or output.tensor.dtype != torch.int64:
            return None
        tensors.append(output.tensor.clamp(ends.min, ends.max).to(tensor.dtype))
    return healthy.with_tensors(tensors)


def ignored(healthy: Healthy, name: str, default: Any) -> Outcome | None:
    """The argument has its default, whatever is given."""
    case = _with_default(healthy.case, name, default)
    if case is None:
        return None
    materials = replace(healthy.materials, case=case)
    return _numbers_of(healthy, attempt(Cpu(), healthy.operator, materials, healthy.direction))


def _with_default(case: Case, name: str, default: Any) -> Case | None:
    """The case with the argument left out; None if it is not given, or is a tensor."""
    position = position_of(case, name)
    if name in case.kwargs:
        value: Any = case.kwargs[name]
        other = replace(case, kwargs={k: v for k, v in case.kwargs.items() if k != name})
    elif position is not None and position < len(case.args):
        value = case.args[position]
        other = replace(case, args=(*case.args[:position], default, *case.args[position + 1 :]))
    else:
        return None
    plain = default is None or isinstance(default, (bool, int, float, str))
    given_tensor = any(isinstance(v, TensorRecipe) for v in [value])
    return other if plain and not given_tensor and repr(value) != repr(default) else None


def _strided(healthy: Healthy) -> bool:
    return any(tensor.view for tensor in healthy.case.tensors if isinstance(tensor, TensorRecipe))


def _several(healthy: Healthy) -> bool:
    return len(healthy.case.tensors) > 1


def _masked(healthy: Healthy) -> bool:
    return any(tensor.dtype == "bool" for tensor in healthy.case.tensors)


def _floating(healthy: Healthy) -> bool:
    return any(floats(tensor.dtype) for tensor in healthy.case.tensors)


def _special(healthy: Healthy) -> bool:
    return any(
        floats(t.dtype)
        and (not isinstance(t, TensorRecipe) or bool(t.special) or t.values[0] not in _ORDINARY)
        for t in healthy.case.tensors
    )


_CORRECTED = ("var", "std", "var_mean", "std_mean")


def uncorrected(healthy: Healthy) -> Outcome | None:
    """A variance of everything is divided by n where nothing is said of the correction."""
    if not _says_nothing(healthy):
        return None
    case = replace(healthy.case, kwargs={"correction": 0})
    materials = replace(healthy.materials, case=case)
    return _numbers_of(healthy, attempt(Cpu(), healthy.operator, materials, healthy.direction))


def _says_nothing(healthy: Healthy) -> bool:
    return not healthy.case.kwargs and healthy.direction == "forward"


def faults(operator: Operator) -> Iterator[Fault]:
    """The faults of one operator: one per defaulted argument, beside the general ones."""
    misreadings: dict[str, tuple[Misread, Callable[[Healthy], bool]]] = {
        "strides are ignored": (as_contiguous, _strided),
        "the storage offset is ignored": (from_the_beginning, _strided),
        "conjugate and negative bits are ignored": (bits_lost, _strided),
        "the second operand is reversed": (operand_reversed, _several),
        "the second operand is its first element": (first_element, _several),
        "the mask is ignored": (without_mask, _masked),
        "inputs are taken for their magnitude": (magnitude, lambda healthy: True),
        "inputs have few bits": (eight_bits, _floating),
        "NaN among the inputs is 0": (not_a_number, _special),
        "subnormal inputs are 0": (small_is_zero, _special),
    }
    for name, (how, likely) in misreadings.items():
        yield Fault(name, functools.partial(misread, how=how), likely)
    if operator.name.split(".")[0] in _CORRECTED:
        # No other fault needs a call without arguments: its weight has it chosen.
        yield Fault("the correction is 0 by default", uncorrected, _says_nothing, weight=8.0)
    yield Fault("whole numbers saturate", saturated, lambda h: h.case.dtype.strip("u")[:3] == "int")
    for name, default in sorted(defaults(operator).items()) if operator.callable else ():
        yield Fault(
            f"argument {name} is ignored",
            functools.partial(ignored, name=name, default=default),
            functools.partial(_given, name=name, default=default),
            weight=2.0,
        )


def _given(healthy: Healthy, name: str, default: Any) -> bool:
    return _with_default(healthy.case, name, default) is not None
