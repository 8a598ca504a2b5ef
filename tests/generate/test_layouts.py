"""Layouts: every chain of views ends in the wanted shape, inside its base, and shares memory only
where that was allowed."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from consistency.core.recipe import TensorRecipe
from consistency.generate.layouts import LAYOUTS, Shape, inverse, possible
from consistency.generate.materialize import view_of

shapes = st.lists(st.integers(0, 5), max_size=5).map(tuple)


def chained(
    draw: st.DataObject, layouts: list[str], shape: Shape, overlap: bool
) -> tuple[Shape, tuple[Any, ...]]:
    """Base and chain of views that end in ``shape``, as the strategies build them: backwards, step
    by step."""

    def integer(low: int, high: int) -> int:
        return draw.draw(st.integers(low, high))  # which refuses low > high

    base, chain = shape, []
    for layout in layouts:
        step = inverse(layout, base, integer, overlap=overlap)
        if step is not None:
            base = step[0]
            chain.insert(0, step[1])
    return base, tuple(chain)


def addresses(base: Shape, chain: tuple[Any, ...]) -> torch.Tensor:
    """The view over a base that holds 0, 1, 2, …: every element is its own address."""
    return view_of(torch.arange(math.prod(base)), TensorRecipe(base, "int64", view=chain))


def first(low: int, high: int) -> int:
    return low


@given(st.data(), st.lists(st.sampled_from(LAYOUTS), min_size=1, max_size=3), shapes, st.booleans())
def test_a_chain_ends_in_the_wanted_shape(
    data: st.DataObject, layouts: list[str], shape: Shape, overlap: bool
) -> None:
    base, chain = chained(data, layouts, shape, overlap)
    view = addresses(base, chain)
    assert tuple(view.shape) == shape
    if not overlap:
        assert view.unique().numel() == view.numel(), "two elements share memory"


@given(st.data(), st.lists(st.sampled_from(LAYOUTS), min_size=1, max_size=3), shapes)
def test_a_chain_agrees_with_as_strided(
    data: st.DataObject, layouts: list[str], shape: Shape
) -> None:
    base, chain = chained(data, layouts, shape, True)
    view = addresses(base, chain)
    flat = torch.arange(math.prod(base))
    assert torch.equal(
        view, torch.as_strided(flat, view.shape, view.stride(), view.storage_offset())
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_can_be_had(layout: str) -> None:
    shape = (2, 1, 4, 3) if layout == "unit-stride" else (2, 3, 4, 5)
    found = inverse(layout, shape, first)
    assert found is not None
    view = addresses(found[0], (found[1],))
    plain = torch.empty(shape)
    assert view.stride() != plain.stride() or view.storage_offset() > 0


def test_layouts_are_what_they_are_called() -> None:
    def view(layout: str, shape: Shape = (2, 3, 4, 5)) -> torch.Tensor:
        found = inverse(layout, shape, first)
        assert found is not None
        return addresses(found[0], (found[1],))

    assert view("channels-last").is_contiguous(memory_format=torch.channels_last)
    assert view("channels-last", (2, 3, 4, 5, 6)).is_contiguous(
        memory_format=torch.channels_last_3d
    )
    assert view("transpose").transpose(2, 3).is_contiguous()
    assert view("expand").stride(0) == 0
    assert view("offset").storage_offset() > 0
    assert view("slice").stride(0) == 2 * 60
    assert view("select").stride(3) == 2
    assert view("unfold").unique().numel() < 120
    assert view("unit-stride", (1, 4)).stride() == (4, 1)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sharing_can_be_excluded(layout: str) -> None:
    assert (inverse(layout, (2, 1, 3, 4), first, overlap=False) is None) == (
        layout in ("expand", "unfold")
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_is_drawn_for_a_scalar_but_an_offset(layout: str) -> None:
    assert (inverse(layout, (), first) is not None) == (layout in ("select", "offset"))


@given(shapes, st.booleans())
def test_what_is_possible_is_known_beforehand(shape: Shape, overlap: bool) -> None:
    assert possible(shape, overlap=overlap) == tuple(
        name for name in LAYOUTS if inverse(name, shape, max, overlap=overlap)
    )


def test_an_unknown_layout_gives_nothing() -> None:
    assert inverse("blocked", (2, 3), first) is None
