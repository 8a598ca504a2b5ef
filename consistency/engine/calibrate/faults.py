"""Faults planted into healthy outcomes: small errors that a good tolerance detects. All are
deterministic functions of the case.

Sizes: 16 ulp of the result; inputs rounded to the 11 significant bits of TF32 or the 8 of bfloat16
(float32 only, otherwise computed in float64); a bias of 2¹²·u·S in float32 and float64 (2⁻¹²·S in
float32) and of 8·u·S in half precision, where u is the unit roundoff of the result; results
truncated toward zero instead of rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ...backends.base import Backend
from ...core import dtypes
from ...core.dtypes import FORMATS, Format
from ...core.model import Outcome, Output
from ...reference import Reference

ULPS = 16.0
BIAS = 2.0**12  # × u·S
BIAS_HALF = 8.0
BITS = {"TF32": 11, "bfloat16": 8}  # significant bits of the inputs
FAULTS = ("16 ulp in one", "16 ulp in all", "TF32", "bfloat16", "bias", "truncated")

Doubles = npt.NDArray[np.float64]
ToleranceChange = Callable[[int, Doubles, Doubles, Format], Doubles | None]


def planted(
    outcome: Outcome, reference: Reference, computer: Backend
) -> Iterator[tuple[str, Outcome]]:
    """The name and the outcome of every fault that changes ``outcome``; ``computer`` runs operators
    in float64.

    A fault without effect is left out, such as rounding inputs that have few bits anyway.
    """
    one_generator, all_generator = (
        np.random.default_rng(_seed(reference)),
        np.random.default_rng(_seed(reference) + 1),
    )
    changed = _with_change(outcome, reference, _first_only(_one_element(one_generator)))
    if changed is not None:
        yield "16 ulp in one", changed
    changed = _with_change(outcome, reference, _all_elements(all_generator))
    if changed is not None:
        yield "16 ulp in all", changed
    if reference.materials.case.dtype == "float32":
        for name, bits in BITS.items():
            changed = _round_inputs(outcome, reference, computer, bits)
            if changed is not None:
                yield name, changed
    changed = _with_change(outcome, reference, _add_bias(reference))
    if changed is not None:
        yield "bias", changed
    changed = _truncate(outcome, reference)
    if changed is not None:
        yield "truncated", changed


def _seed(reference: Reference) -> int:
    return int(reference.materials.case.digest[:12], 16)


def _numbers(output: Output) -> tuple[Doubles, Format] | None:
    """The real numbers of a floating output (complex ones part by part), flat and in float64; None
    for any other."""
    tensor = output.tensor
    if tensor is None or not tensor.numel():
        return None
    form = FORMATS.get(
        {"complex64": "float32", "complex128": "float64"}.get(output.dtype, output.dtype)
    )
    if form is None:
        return None
    real = (
        torch.view_as_real(tensor.detach().resolve_conj())
        if tensor.is_complex()
        else tensor.detach()
    )
    return real.to(torch.float64).reshape(-1).numpy().copy(), form


def _with_numbers(output: Output, numbers: Doubles) -> Output:
    assert output.tensor is not None
    flat = torch.from_numpy(numbers)
    shape = output.tensor.shape
    if output.tensor.is_complex():
        return replace(
            output, tensor=torch.view_as_complex(flat.reshape(*shape, 2)).to(output.tensor.dtype)
        )
    return replace(output, tensor=flat.reshape(shape).to(output.tensor.dtype))


def _with_change(outcome: Outcome, reference: Reference, change: ToleranceChange) -> Outcome | None:
    """``outcome`` with the numbers of every floating output changed; None if nothing changes."""
    outputs, differs = [], False
    for index, output in enumerate(outcome.outputs):
        extracted = _numbers(output)
        if extracted is not None:
            numbers, form = extracted
            ulp = dtypes.spacing(numbers, form, np.empty_like(numbers))
            other = change(index, numbers, ulp, form)
            if other is not None:
                output, differs = _with_numbers(output, other), True
        outputs.append(output)
    return replace(outcome, outputs=tuple(outputs)) if differs else None


def _perturbable(numbers: Doubles) -> npt.NDArray[np.int64]:
    """Where a relative error is defined: finite and nonzero."""
    return np.flatnonzero(np.isfinite(numbers) & (numbers != 0.0))


def _one_element(random: np.random.Generator) -> ToleranceChange:
    def change(index: int, numbers: Doubles, ulp: Doubles, form: Format) -> Doubles | None:
        where = _perturbable(numbers)
        if not where.size:
            return None
        place = where[int(random.integers(where.size))]
        numbers[place] += ULPS * ulp[place] * (1.0 if random.integers(2) else -1.0)
        return numbers

    return change


def _first_only(change: ToleranceChange) -> ToleranceChange:
    done: list[int] = []

    def first(index: int, numbers: Doubles, ulp: Doubles, form: Format) -> Doubles | None:
        other = None if done else change(index, numbers, ulp, form)
        if other is not None:
            done.append(index)
        return other

    return first


def _all_elements(random: np.random.Generator) -> ToleranceChange:
    def change(index: int, numbers: Doubles, ulp: Doubles, form: Format) -> Doubles | None:
        where = _perturbable(numbers)
        numbers[where] += ULPS * ulp[where] * random.choice((-1.0, 1.0), where.size)
        return numbers if where.size else None

    return change


def _add_bias(reference: Reference) -> ToleranceChange:
    """Add a multiple of S to every number, or of |ref| where no S of the error model fits."""

    def change(index: int, numbers: Doubles, ulp: Doubles, form: Format) -> Doubles | None:
        magnitudes = reference.magnitudes
        s: Any = (
            magnitudes[index]
            if index < len(magnitudes) and reference.operator.observe is None
            else None
        )
        if isinstance(s, torch.Tensor):
            s = s.to(torch.float64).reshape(-1).numpy() if s.numel() == numbers.size else None
        scale = np.abs(numbers) if s is None else np.nan_to_num(s, nan=0.0, posinf=0.0)
        step = (BIAS if form.precision >= 24 else BIAS_HALF) * form.unit_roundoff * scale
        where = np.isfinite(numbers) & (numbers != 0.0) & (step > 0.0)
        return np.where(where, numbers + step, numbers) if where.any() else None

    return change


def _truncate(outcome: Outcome, reference: Reference) -> Outcome | None:
    """The float64 result rounded toward zero; None for float64 results, which have no bits to
    cut."""
    outputs, differs = [], False
    for output, wide in zip(outcome.outputs, reference.outcome.outputs, strict=False):
        observed, exact = _numbers(output), _numbers(wide)
        if (
            observed is not None
            and exact is not None
            and exact[1].precision > observed[1].precision
            and observed[0].size == exact[0].size
        ):
            numbers, form = exact[0], observed[1]
            ulp = dtypes.spacing(numbers, form, np.empty_like(numbers))
            fits = np.isfinite(numbers) & (np.abs(numbers) < form.overflow)
            numbers[fits] = np.trunc(numbers[fits] / ulp[fits]) * ulp[fits]
            differs = differs or bool((numbers != observed[0]).any())
            output = _with_numbers(output, numbers)
        outputs.append(output)
    return replace(outcome, outputs=tuple(outputs)) if differs else None


def _round_inputs(
    outcome: Outcome, reference: Reference, computer: Backend, bits: int
) -> Outcome | None:
    """The operator in float64 on inputs of ``bits`` significant bits; None if no number moves by
    more than 16 ulp."""
    recomputed = computer.run(
        reference.operator,
        reference.materials,
        reference.direction,
        "float64",
        lambda base, position: rounded(base, bits),
    )
    if not recomputed.ok or len(recomputed.outputs) != len(outcome.outputs):
        return None
    outputs, moved = [], False
    for output, other, clean in zip(
        outcome.outputs, recomputed.outputs, reference.outcome.outputs, strict=True
    ):
        observed, wide, true = _numbers(output), _numbers(other), _numbers(clean)
        if (
            observed is not None
            and wide is not None
            and true is not None
            and observed[0].size == wide[0].size == true[0].size
        ):
            far = np.abs(true[0] - wide[0]) > ULPS * dtypes.spacing(
                true[0], observed[1], np.empty_like(true[0])
            )
            moved = moved or bool((far & np.isfinite(true[0]) & np.isfinite(wide[0])).any())
            output = _with_numbers(output, wide[0])
        outputs.append(output)
    return replace(outcome, outputs=tuple(outputs)) if moved else None


def rounded(numbers: torch.Tensor, bits: int) -> torch.Tensor:
    """float64 ``numbers`` to the nearest ones of ``bits`` significant bits, ties to even."""
    mantissa, exponent = torch.frexp(numbers)
    near = torch.ldexp(
        torch.round(mantissa * 2.0**bits), (exponent - bits).to(torch.float64)
    )  # an int32 would mean float32
    return torch.where(torch.isfinite(numbers), near, numbers)
