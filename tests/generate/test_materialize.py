"""From a recipe to tensors and back: fresh storages, exact conversions, literals that keep bits and
strides."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from consistency.core import dtypes, recipe
from consistency.core.bits import to_bytes
from consistency.core.model import Case
from consistency.core.recipe import DType, Index, Literal, MemoryFormat, TensorRecipe
from consistency.errors import RecipeError
from consistency.generate.layouts import LAYOUTS, inverse
from consistency.generate.materialize import (
    Arguments,
    case_of,
    from_python,
    literal,
    prepare,
    view_of,
)

COMPLEX = ("complex64", "complex128")


def arguments(*args: Any, **kwargs: Any) -> Arguments:
    return prepare(Case("op", "float32", args, kwargs)).build()


def bits(tensor: torch.Tensor) -> bytes:
    tensor = tensor.detach().contiguous()
    return (
        (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy().tobytes()
    )


@st.composite
def strided(draw: st.DrawFn) -> torch.Tensor:
    """A tensor of any dtype a recipe can hold, behind a chain of up to two views."""
    shape: tuple[int, ...] = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
    chain: list[Any] = []
    for layout in draw(st.lists(st.sampled_from(LAYOUTS), max_size=2)):
        step = inverse(layout, shape, lambda low, high: draw(st.integers(low, high)))
        if step is not None:
            shape = step[0]
            chain.insert(0, step[1])
    dtype = draw(st.sampled_from([*dtypes.ALL, *COMPLEX]))
    values = (
        ("tokens", -3.0, 3.0, "nan", "-nan", "-0", "subnormal")
        if dtype in dtypes.FORMATS
        else ("uniform", 0.0, 3.0)
    )
    kind = "float64" if dtype in COMPLEX else dtype
    tensor = arguments(
        TensorRecipe(shape, kind, values, draw(st.integers(0, 999)), tuple(chain))
    ).tensors[0]
    return tensor.to(dtypes.TORCH[dtype]) if dtype in COMPLEX else tensor


@given(strided())
def test_a_literal_keeps_bits_shape_and_strides(tensor: torch.Tensor) -> None:
    there = literal(tensor)
    case = Case("op", "float32", (there,))
    again = Case.from_line(case.line, {there.digest: there.data})
    (back,) = prepare(again).build().tensors
    assert back.dtype == tensor.dtype
    assert back.shape == tensor.shape
    assert back.stride() == tensor.stride()
    assert bits(back) == bits(tensor)


@given(strided())
def test_a_literal_holds_no_more_than_its_extent(tensor: torch.Tensor) -> None:
    reach = (
        sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) + 1
        if tensor.numel()
        else 0
    )
    assert len(literal(tensor).data) == reach * tensor.element_size()


def test_a_literal_of_a_conjugated_or_tracked_tensor() -> None:
    tensor = torch.tensor([1 + 2j, 3 - 4j], requires_grad=True)
    (back,) = arguments(literal(tensor.conj())).tensors
    assert back.tolist() == [1 - 2j, 3 + 4j]
    assert not back.requires_grad


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(2).to(torch.float8_e5m2), lambda: torch.ones(2).to_sparse(),
        lambda: torch.empty(2, device="meta"),
        lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_tensor_that_recipes_do_not_hold_is_refused(make: Any) -> None:
    with pytest.raises(RecipeError, match="cannot be part of a recipe; give"):
        literal(make())


def test_what_a_user_passes_becomes_a_recipe() -> None:
    tensor = torch.arange(6.0).reshape(2, 3).T
    case = case_of("op", "float32", (tensor, [tensor, 2], (0.5, None), torch.Size([2, 3]),
    np.float64(1.5)), {
        "dtype": torch.bfloat16, "index": (slice(1, None), ...),
        "memory_format": torch.channels_last,
    })  # fmt: skip
    args, kwargs = case.args, case.kwargs
    assert isinstance(args[0], Literal)
    assert args[1] == [args[0], 2]
    assert args[2:] == ((0.5, None), (2, 3), 1.5)
    assert kwargs == {
        "dtype": DType("bfloat16"),
        "index": (Index(1), ...),
        "memory_format": MemoryFormat("channels_last"),
    }
    built = prepare(Case.from_line(case.line)).build()
    assert torch.equal(built.args[1][0], tensor)
    assert built.kwargs == {
        "dtype": torch.bfloat16,
        "index": (slice(1, None), ...),
        "memory_format": torch.channels_last,
    }
    assert isinstance(built.args[3], tuple)


def test_other_things_stay_what_they_are() -> None:
    assert from_python("mean") == "mean"
    assert from_python(True) is True


def test_every_build_has_storages_of_its_own() -> None:
    materials = prepare(
        Case("op", "float32", (TensorRecipe((4,), "float32", stop=9), literal(torch.ones(3))))
    )
    one, two = materials.build(), materials.build()
    for tensor in one.bases:
        tensor.zero_()
    assert one.changed(materials) == (0, 1)
    assert two.changed(materials) == ()
    assert materials.build().changed(materials) == ()


def test_conversion_to_float64_is_exact_and_leaves_the_rest() -> None:
    case = Case(
        "op", "bfloat16",
        (
            TensorRecipe((9,), "bfloat16", ("normal", 0.0, 1.0), 50), TensorRecipe((9,), "int32",
            ("integers", -9, 9), 50),
            TensorRecipe((9,), "bool", ("integers", 0, 1), 50), DType("bfloat16"), DType("int32"),
            0.5,
        ),
    )  # fmt: skip
    plain, wide = prepare(case).build(), prepare(case).build("float64")
    assert [t.dtype for t in wide.tensors] == [torch.float64, torch.int64, torch.bool]
    assert all(
        torch.equal(a.to(b.dtype), b) for a, b in zip(plain.tensors, wide.tensors, strict=True)
    )
    assert plain.args[3:] == [torch.bfloat16, torch.int32, 0.5]
    assert wide.args[3:] == [torch.float64, torch.int32, 0.5]


def test_gradients_are_tracked_by_floating_leaves_only() -> None:
    transposed = TensorRecipe((2, 3), "float32", stop=9, view=(("transpose", 0, 1),))
    case = Case("op", "float32", (transposed, TensorRecipe((2,), "int64", stop=9)))
    floating, whole = prepare(case).build(gradients=True).tensors
    assert floating.requires_grad
    assert floating.is_leaf
    assert floating.stride() == (1, 3)
    assert not whole.requires_grad


def test_adjust_sees_the_floating_bases_by_position() -> None:
    case = Case(
        "op",
        "float32",
        (TensorRecipe((2,), "int64", stop=9), TensorRecipe((3,), "float32", stop=9)),
    )
    seen = []

    def adjust(base: torch.Tensor, position: int) -> torch.Tensor:
        seen.append((position, base.dtype, tuple(base.shape)))
        return base + 1

    plain, moved = prepare(case).build("float64"), prepare(case).build("float64", adjust=adjust)
    assert seen == [(1, torch.float64, (3,))]
    assert torch.equal(moved.tensors[1], plain.tensors[1] + 1)


@pytest.mark.parametrize("dtype", [*dtypes.ALL, *COMPLEX])
def test_a_change_of_one_element_is_noticed(dtype: str) -> None:
    base = torch.zeros(3, 5, dtype=dtypes.TORCH[dtype])
    materials = prepare(Case("op", "float32", (literal(torch.ones(2)), literal(base))))
    built = materials.build()
    assert built.changed(materials) == ()
    built.tensors[1].view(-1)[7] = 0
    assert built.changed(materials) == ()
    built.tensors[1].view(-1)[7] = 1
    assert built.changed(materials) == (1,)


def test_changes_are_of_bits() -> None:
    """The sign of a zero is one; a NaN that stays is none; a write beside the view is one."""
    half = TensorRecipe(
        (4,), "float32", ("sparse", 0.0), 9, view=(("slice", 0, 0, 2, None),), special=((0, "nan"),)
    )
    materials = prepare(Case("op", "float32", (half,)))
    built = materials.build()
    assert built.changed(materials) == ()
    built.tensors[0][1] = -0.0
    assert built.changed(materials) == (0,)
    built = materials.build()
    built.bases[0][3] = 1.0
    assert built.changed(materials) == (0,)


def test_the_hash_tells_recipes_and_bits_apart() -> None:
    def of(**changes: Any) -> str:
        return prepare(
            Case("op", "float32", (TensorRecipe((4,), "float32", **{"stop": 9} | changes),))
        ).sha256

    assert of() == of()
    assert (
        len({of(), of(stop=10), of(special=((0, "nan"),)), of(view=(("slice", 0, 0, 2, None),))})
        == 4
    )


NAMES = (
    "transpose", "permute", "expand", "unfold", "select", "slice", "as_strided", "unsqueeze",
    "squeeze", "set_", "",
)  # fmt: skip
steps = st.tuples(
    st.sampled_from(NAMES),
    st.lists(st.one_of(st.none(), st.integers(-3, 9), st.integers()), max_size=6),
)


@given(st.lists(st.integers(0, 3), max_size=3).map(tuple), st.lists(steps, min_size=1, max_size=3))
def test_no_chain_of_views_leaves_its_base(
    base: tuple[int, ...], chain: list[tuple[str, list[Any]]]
) -> None:
    view = tuple((name, *parameters) for name, parameters in chain)
    flat = torch.zeros(math.prod(base))
    try:
        tensor = view_of(flat, TensorRecipe(base, "float32", view=view))
    except RecipeError:
        return
    assert tensor.numel() <= recipe.MAX_ELEMENTS
    assert tensor.untyped_storage().data_ptr() == flat.untyped_storage().data_ptr()
    assume(tensor.numel())
    last = tensor.storage_offset() + sum(
        (n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)
    )
    assert 0 <= tensor.storage_offset() <= last < flat.numel()
    assert flat.untyped_storage().nbytes() == 4 * flat.numel()


def test_the_bits_of_a_single_number_with_a_stride() -> None:
    number = torch.tensor([[1, 2]], dtype=torch.int64)[:, 1]
    assert to_bytes(number[::2].as_strided((1,), (2,), 1)) == (2).to_bytes(8, "little")
