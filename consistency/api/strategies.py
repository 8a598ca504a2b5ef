"""Hypothesis strategies for one's own tests: tensors as the harness draws them, in every layout and
of every class of values, and cases of declared operators.

```python
from hypothesis import given
from consistency import strategies

@given(strategies.tensors(dtypes=["float32", "bfloat16"], min_dims=1))
def test_mine(x):
    consistency.assert_consistent(my_softmax, x)
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from hypothesis import strategies as st

from .. import operators
from ..core import dtypes as _dtypes
from ..core.model import Case
from ..errors import UsageError, did_you_mean
from ..generate.materialize import prepare
from ..generate.strategies import Draw
from ..generate.strategies import cases as _cases
from ..operators.declare import EVERYWHERE, Domain, Operator, call

__all__ = ["arguments", "cases", "dtypes", "shapes", "tensors"]

_FLOATS = ("float32", "float64", "float16", "bfloat16")


def dtypes(*names: str) -> st.SearchStrategy[torch.dtype]:
    """One of the dtypes ``names`` (default: float32, float64, float16, bfloat16). Shrinks towards
    the first. Raises UsageError for an unknown one."""
    return st.sampled_from([_dtypes.TORCH[_known(name)] for name in names or _FLOATS])


@st.composite
def shapes(
    draw: st.DrawFn, *, min_dims: int = 0, max_dims: int = 4, min_side: int = 1, max_side: int = 64,
    max_elements: int = 4096,
) -> tuple[int, ...]:  # fmt: skip
    """Shapes with sizes often just around powers of two, where blocks of kernels end. Shrinks to
    fewer, then smaller dimensions."""
    _ordered("dims", min_dims, max_dims)
    _ordered("side", min_side, max_side)
    return _source(draw, "float32", Domain()).shape(
        min_dims, max_dims, least=min_side, most=max_side, elements=max_elements
    )


@st.composite
def tensors(
    draw: st.DrawFn,
    shape: Sequence[int] | st.SearchStrategy[Sequence[int]] | None = None,
    *,
    dtypes: Sequence[str] = ("float32",),
    low: float = -float("inf"),
    high: float = float("inf"),
    values: tuple[Any, ...] | None = None,
    layouts: bool = True,
    overlap: bool = True,
    special_values: bool = True,
    min_dims: int = 0,
    max_dims: int = 4,
    min_side: int = 1,
    max_side: int = 64,
) -> torch.Tensor:
    """Tensors on the CPU. Shrinks towards a small contiguous tensor with zeros everywhere but at
    the culprit.

    ``shape`` is one, a strategy for one, or None to draw it within the bounds. Numbers lie in
    [``low``, ``high``], and without these bounds are even, normal, whole, over many binades,
    subnormal or cancelling; ``values``
    chooses one such class by name and parameters, such as ``("wide", -8, 8)``. ``layouts=False``
    keeps tensors contiguous; ``overlap=False`` leaves out expanded ones, which cannot be written
    to. ``special_values=False`` leaves out NaN, infinities and the ends of the format. Raises
    UsageError for an unknown dtype or an empty range.
    """
    if not low <= high:
        raise UsageError(f"low = {low} is above high = {high}")
    names = [_known(name) for name in ([dtypes] if isinstance(dtypes, str) else dtypes)]
    dtype = draw(st.sampled_from(names))
    everywhere = low == -float("inf") and high == float("inf")
    domain = Domain(
        low, high, specials=EVERYWHERE if special_values else (),
        wide=(-24, 24) if everywhere else None, sums=everywhere,
        tiny=special_values and low <= 0.0 <= high,
        propagates=("nan",) if special_values else (),
    )  # fmt: skip
    if shape is None:
        bounds = {"min_dims": min_dims, "max_dims": max_dims}
        shape = draw(shapes(**bounds, min_side=min_side, max_side=max_side))
    elif isinstance(shape, st.SearchStrategy):
        shape = draw(shape)
    source = _source(draw, dtype, domain)
    recipe = source.tensor(tuple(shape), domain, values=values, layout=layouts, overlap=overlap)
    return prepare(Case("tensors", dtype, (recipe,))).build().tensors[0]


def cases(operator: str, dtype: str = "float32") -> st.SearchStrategy[Case]:
    """Cases of a declared operator, as ``consistency run`` draws them. Raises UsageError."""
    return _cases(operators.get(operator), _known(dtype))


@st.composite
def arguments(
    draw: st.DrawFn, operator: str, dtype: str = "float32"
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """``(args, kwargs)`` of a call of a declared operator, with tensors: for a function of one's
    own that takes what ``torch.nn.functional.layer_norm`` takes. Raises UsageError."""
    built = prepare(draw(cases(operator, dtype))).build()
    return tuple(built.args), dict(built.kwargs)


def _source(draw: st.DrawFn, dtype: str, domain: Domain) -> Draw:
    operator = Operator(name="tensors", family="user", sample=lambda d: call())
    return Draw(draw, dtype, operator)


def _known(name: str) -> str:
    text = str(name).removeprefix("torch.")
    if text not in _dtypes.TORCH:
        raise UsageError(
            f"unknown dtype {text!r:.40}{did_you_mean(text, _dtypes.TORCH)}; known: "
            f"{', '.join(_dtypes.TORCH)}"
        )
    return text


def _ordered(what: str, low: int, high: int) -> None:
    if not 0 <= low <= high:
        raise UsageError(f"min_{what} = {low} and max_{what} = {high}: give 0 ≤ min ≤ max")
