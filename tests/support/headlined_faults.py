"""Planted faults whose cause is known, and the ids that a headline may name for each.

The table was written from the definitions of the faults (tests/support/catalog,
tests/real_bugs), before any of them was run: what the fault does is one of the ids, or does the
same to every input that is drawn. Five faults that the catalog has no id for had none in it at
first, either: what is admitted for them now was added after a run, by their definitions again. One
fault that no case of a quick run shows was replaced by one of its kind. `evaluated-otherwise`
came into the catalog after the table; where its words are the fault's definition ("expm1 evaluated
as exp(x) − 1"), it is right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

import consistency
from tests.real_bugs import BUGS

from .catalog import FAULTS
from .catalog.model import Call, Played

N = "nn.functional."
# (what / operator dtype [direction] of the catalog, ids that are right); float16 has the mantissa
# of TF32.
CATALOG: tuple[tuple[str, str], ...] = (
    ("TF32 inputs / matmul float32", "tf32-inputs"),
    (f"TF32 inputs / {N}conv2d float32", "tf32-inputs"),
    ("TF32 inputs / einsum float32", "tf32-inputs"),
    ("bfloat16 inputs / baddbmm float32", "bfloat16-inputs"),
    ("float16 inputs / tensordot float32", "float16-inputs|tf32-inputs"),
    ("bfloat16 in three products / mm float32", "bfloat16x3-inputs"),
    ("float16 accumulator / matmul float32", "float16-accumulator"),
    ("bfloat16 accumulator / sum float32", "bfloat16-accumulator"),
    ("truncating every 1 / mm float32", "truncating-accumulator"),
    ("computed in float32 / exp float64", "float32-instead-of-float64"),
    ("computed in float32 / linalg.inv float64", "float32-instead-of-float64"),
    ("terms beyond a multiple of 8 dropped / sum float32", "terms-dropped"),
    ("terms beyond a multiple of 16 dropped / bmm float32", "terms-dropped"),
    ("offset ignored / softmax float32", "offset-ignored"),
    ("second offset ignored / sub float32", "offset-ignored"),
    ("strides ignored / mul float32", "strides-ignored"),
    ("strides ignored / sum float32", "strides-ignored"),
    (f"second strides ignored / {N}conv1d float32", "strides-ignored"),
    ("stale buffer / sin float32", "stale|nondeterministic"),
    ("every fifth call is half zero / mean float32", "nondeterministic"),
    ("input modified / neg float32", "input-modified"),
    ("int64 in 32 bits / cumsum int64", "int64-truncated"),
    ("times 1.001 / softmax float32", "scaled"),
    ("times 1.00001 / exp float32", "scaled"),
    ("plus 0.0001 / cos float32", "offset-added"),
    ("zero / cumprod float32", "zero"),
    ("tail of 8 off by 0.0001 / tan float32", "depends-on-position"),
    ("tail of 4 not written / log1p float32", "terms-dropped"),
    ("shifted by one / gather float32", "shifted"),
    ("flipped / cumsum float32", "flipped"),
    ("transposed / linalg.solve float32", "transposed"),
    ("NaN dropped / sqrt float32", "nan-dropped"),
    ("overflow from 1e30 / exp float32", "early-overflow"),
    ("saturated at 1e30 / reciprocal float32", "saturated"),
    ("subnormals flushed / abs float32", "flushed-subnormals"),
    ("wrong from batches of 3 / bmm float32", "depends-on-batch"),
    ("gradient zero / exp float32 backward", "zero"),
    (f"gradient doubled / {N}conv1d float32 backward", "scaled"),
    ("gradient negated / atan2 float32 backward", "negated"),
    ("gradient transposed / matmul float32 backward", "transposed"),
    ("exp(x) - 1 / expm1 float32", "evaluated-otherwise|approximation"),
    ("series of 1.5e-7 / erf float32", "approximation"),
    ("without scaling / hypot float32", "early-overflow"),
    ("one pass / var float32", "one-pass-variance"),
    (f"one pass / {N}layer_norm float32", "one-pass-variance"),
    (f"eps outside / {N}group_norm float32", "eps-misplaced"),
    ("no shift / softmax float32", "no-max-shift"),
    ("no shift / logsumexp float32", "no-max-shift"),
    ("value ignored / addcmul float32", "argument-ignored"),
    ("descending ignored / sort float32", "argument-ignored|flipped"),
    (f"padding counted / {N}avg_pool2d float32", "argument-ignored"),
    (f"bias ignored / {N}linear float32", "argument-ignored"),
    (f"delta ignored / {N}huber_loss float32", "argument-ignored"),
    ("upper ignored / linalg.cholesky float32", "argument-ignored|transposed"),
)  # fmt: skip
REPORTED: tuple[tuple[str, str], ...] = (
    ("ml-explore/mlx#4044", "nan-dropped"),
    ("pytorch/pytorch#192507", "early-overflow"),
    ("jax-ml/jax#37762", "flushed-subnormals"),
    ("IntelPython/mkl_fft#336", "scaled|argument-ignored"),
    ("pytorch/pytorch#143738", "zero"),
    ("pytorch/pytorch#134580", "strides-ignored"),
)
# The catalog has no id for these; the words of some ids are true of them nevertheless:
# `approximation` is "the formula itself, which errs alike in float64"; which element is in the
# middle depends on the position and on how many others there are.
UNNAMED: tuple[tuple[str, str], ...] = (
    ("halves away from zero / round float32", "approximation"),
    ("weight of the other end / lerp float32", "approximation"),
    ("atan(y / x) / atan2 float32", "approximation"),
    (
        "one element times 1.001 at 0.5 / softmax float32",
        "depends-on-position|depends-on-batch",
    ),
)


@dataclass(frozen=True)
class HeadlinedFault:
    """A fault, the operator and the dtypes that a run is restricted to (none: all of the
    operator), and the ids that are right."""

    name: str
    operator: str
    dtypes: tuple[str, ...]
    right: frozenset[str]
    make: Callable[[], consistency.Backend]


def swapped_gates(call: Call) -> object:
    """A GRU whose reset and update gates have changed places in the weights."""
    x, state, flat, *options = call.args

    def swapped(weight: torch.Tensor) -> torch.Tensor:
        reset, update, new = weight.chunk(3)
        return torch.cat([update, reset, new])

    return call.operator(x, state, [swapped(weight) for weight in flat], *options)


def headlined_faults() -> list[HeadlinedFault]:
    """All faults of the tables."""
    catalog = {fault.name.removeprefix("played:"): fault for fault in FAULTS}
    bugs = {bug.issue: bug for bug in BUGS}
    rows = [
        HeadlinedFault(
            name, catalog[name].operator, (catalog[name].dtype,),
            frozenset(filter(None, right.split("|"))), catalog[name].backend,
        )
        for name, right in (*CATALOG, *UNNAMED)
    ]  # fmt: skip
    rows += [
        HeadlinedFault(
            issue,
            bugs[issue].operators[0],
            bugs[issue].dtypes,
            frozenset(right.split("|")),
            bugs[issue].backend,
        )
        for issue, right in REPORTED
    ]
    gates = HeadlinedFault(
        "gates swapped / gru", "gru", (), frozenset({"approximation"}),
        lambda: Played("played:gates", swapped_gates),
    )  # fmt: skip
    return [*rows, gates]
