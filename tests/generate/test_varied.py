"""Variations in every way: which there are, that their tensors are what they say, and that the
conditions by which cases are chosen tell them apart."""

from __future__ import annotations

from dataclasses import replace

import torch

from consistency import operators
from consistency.core.dtypes import INTEGER_RANGE, floats
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.generate.materialize import prepare
from consistency.generate.variations import is_possible
from consistency.generate.varied import (
    arguments,
    cotangents,
    layouts,
    operand_dtypes,
    shapes,
    values,
    wider,
)
from tests.support.adequacy import ordinary_calls, search
from tests.support.adequacy.conditions import further
from tests.support.adequacy.search import soundness

UNIFORM = ("uniform", -1.0, 1.0)
MATRIX = TensorRecipe((4, 5), "float32", UNIFORM, 5000)
IMAGE = TensorRecipe((2, 3, 4, 4), "float32", UNIFORM, 5000)
ADD = Case("add", "float32", (MATRIX, MATRIX))


def built(case: Case) -> list[torch.Tensor]:
    return list(prepare(case).build().tensors)


def bases(cases: object) -> list[tuple[tuple[int, ...], ...]]:
    return [tuple(t.base for t in case.tensors) for case in cases]  # type: ignore[attr-defined]


def test_every_layout_keeps_the_shape() -> None:
    found = list(layouts.of(operators.get("add"), Case("add", "float32", (IMAGE,)), overlap=True))
    assert len(found) == len(layouts.WITHOUT_OVERLAP) + len(layouts.OVERLAPPING)
    for case in found:
        assert [t.shape for t in built(case)] == [IMAGE.base]


def test_layouts_are_what_they_say() -> None:
    (shifted,) = built(Case("exp", "float32", (layouts.shifted(MATRIX),)))
    assert shifted.is_contiguous()
    assert shifted.storage_offset() == 1
    (column,) = built(Case("exp", "float32", (layouts.inner_column(replace(MATRIX, base=())),)))
    assert column.shape == ()
    (part,) = built(Case("exp", "float32", (layouts.channels_of_more(IMAGE),)))
    assert part.stride() == (4 * 4 * 6, 1, 4 * 6, 6)
    (heads,) = built(Case("exp", "float32", (layouts.inner_expanded(IMAGE),)))
    assert heads.stride()[1] == 0


def test_what_is_written_to_shares_no_memory_with_itself() -> None:
    for case in layouts.of(operators.get("add_"), Case("add_", "float32", (IMAGE,)), overlap=False):
        assert 0 not in built(case)[0].stride()


def test_all_tensors_together_change_their_layout() -> None:
    found = layouts.of(operators.get("add"), ADD, overlap=False)
    assert any(all(t.view for t in case.tensors) for case in found)  # type: ignore[union-attr]


def test_sizes_at_thresholds_in_every_role() -> None:
    found = bases(shapes.thresholds(Case("exp", "float32", (MATRIX,))))
    for length in shapes.THRESHOLDS:
        assert {((length, 5),), ((4, length),), ((length, 2),), ((2, length),)} <= set(found)


def test_ranks_and_shapes_that_broadcast() -> None:
    assert ((2, 2, 3, 4, 5), (2, 2, 3, 4, 5)) in bases(shapes.ranks(ADD))
    found = bases(shapes.broadcast(ADD))
    for other in ((), (1,), (5,), (1, 5), (4, 1), (1, 4, 5)):
        assert ((4, 5), other) in found
        assert (other, (4, 5)) in found
    assert ((), ()) in found


def test_numbers_of_the_other_kind_and_dims_by_their_place() -> None:
    clamp = Case("clamp_min", "int64", (replace(MATRIX, dtype="int64"), 3))
    found = [repr(case.args[1]) for case in arguments.of(clamp, ())]
    assert {"3.5", "3.0", "0", "-1"} <= set(found)
    total = Case("sum", "float32", (IMAGE,), {"dim": (1,)})
    dims = [case.kwargs["dim"] for case in arguments.of(total, ())]
    assert (0, 2, 3) in dims
    assert (0, 1, 2, 3) in dims


def test_options_of_other_cases() -> None:
    case = Case("nn.functional.interpolate", "float32", (IMAGE,), {"size": (2, 2)})
    other = replace(case, kwargs={"size": (3, 3), "mode": "bicubic", "antialias": True})
    found = [dict(c.kwargs) for c in arguments.of(case, (other,))]
    assert {"size": (2, 2), "mode": "bicubic"} in found
    assert {"size": (3, 3), "mode": "bicubic", "antialias": True} in found


def test_values_of_one_sign_and_rows_of_nan() -> None:
    found = [c.tensors[0] for c in values.of(Case("exp", "float32", (MATRIX,)))]
    assert {t.values for t in found if isinstance(t, TensorRecipe)} >= {
        values.NEGATIVE,
        values.POSITIVE,
        values.FAR_APART,
    }
    assert any(len(t.special) == 5 for t in found if isinstance(t, TensorRecipe))


def test_cotangents_in_other_layouts_where_there_are_gradients() -> None:
    add = operators.get("add")
    assert not list(cotangents.of(add, ADD))
    layouts_of = {c.cotangent_layout for c in cotangents.of(add, replace(ADD, cotangent=5))}
    assert layouts_of == {"expanded", "transposed"}


def test_numbers_around_those_that_the_call_names() -> None:
    case = Case("clamp", "float32", (MATRIX,), {"min": -0.25, "max": 0.5})
    values_of = values.around(values.named_numbers(case))
    assert values_of == ("near", -1.25, 1.5, -0.25, 0.0, 0.5)
    assert case.with_tensors([replace(MATRIX, values=values_of)]) in list(values.of(case))
    assert not values.named_numbers(Case("sum", "float32", (MATRIX,), {"keepdim": True}))
    (found,) = built(case.with_tensors([replace(MATRIX, base=(500,), values=values_of)]))
    beside = torch.tensor([-0.25, 0.5]).nextafter(torch.tensor([-1.0, 1.0]))
    assert bool(torch.isin(beside, found).any())


def test_quotients_that_are_whole_numbers() -> None:
    long = replace(MATRIX, base=(500,))
    case = Case("div", "float32", (long, replace(long, stop=9000)), {"rounding_mode": "trunc"})
    (other,) = (c for c in values.of(case) if c.tensors[1].values == values.DIVISOR)
    x, y = built(other)
    whole = (x.double() / y.double()) % 1 == 0
    approximate = (x * y.reciprocal()).trunc() != (x / y).trunc()
    assert int(whole.sum()) > 10
    assert bool((whole & approximate).any())  # what a product with the reciprocal gets wrong


def test_one_number_of_a_wider_format() -> None:
    half = replace(MATRIX, dtype="float16")
    found = list(values.of(Case("add", "float16", (half, replace(half, stop=9000)))))
    single = replace(half, dtype="float32", base=(), stop=9000, leaf=False)
    assert any(case.tensors[1] == single for case in found)
    assert not any(case.tensors[1].dtype != "float32" for case in values.of(ADD))


def test_no_random_numbers_are_varied() -> None:
    assert not list(wider(operators.get("bernoulli"), Case("bernoulli", "float32", (MATRIX,)), ()))


def test_conditions_tell_them_apart() -> None:
    def met(*tensors: TensorRecipe, **options: object) -> set[str]:
        return {text for text, _ in further(Case("sum", "float32", tensors, dict(options)))}

    channels = layouts.channels_of_more(IMAGE)
    assert channels is not None
    assert met(channels) - met(IMAGE)
    assert met(replace(MATRIX, base=(3, 33))) - met(replace(MATRIX, base=(3, 34)))
    assert "tensors 0 and 1 of the pattern 11=>" in met(IMAGE, replace(MATRIX, base=(3, 1, 1)))
    assert "dim: 2 of 4, inner and last" in met(IMAGE, dim=(1, 3))
    assert "tensor 0 of negative numbers" in met(replace(MATRIX, values=values.NEGATIVE))
    assert "a result of smaller size, mode = bicubic" in met(IMAGE, size=(2, 2), mode="bicubic")


def test_a_case_that_fails_on_the_cpu_is_told_and_none_that_passes() -> None:
    operator = operators.get("add")
    assert is_possible(operator, ADD)
    assert soundness(operator, ADD) == "sound"
    zeros = replace(MATRIX, values=("integers", 0, 0))
    assert soundness(operator, Case("mul", "float32", (zeros, zeros))) != "failing"


def test_ordinary_calls_can_be_made() -> None:
    names = [
        *ordinary_calls.CALLS,
        *ordinary_calls.WHOLE,
        "nn.functional.scaled_dot_product_attention",
    ]
    for name in names:
        for case in ordinary_calls.of(name, "float32"):
            assert is_possible(operators.get(name), case), case.line
    assert not list(ordinary_calls.of("bernoulli", "float32"))


def test_one_operand_in_another_dtype() -> None:
    found = {tuple(t.dtype for t in case.tensors): case.tensors for case in operand_dtypes.of(ADD)}
    others = set(operand_dtypes.OTHERS) - {"float32"}
    assert set(found) == {(o, "float32") for o in others} | {("float32", o) for o in others}
    for tensors in found.values():
        for tensor in tensors:
            assert isinstance(tensor, TensorRecipe)
            assert tensor.leaf == floats(tensor.dtype)
            assert -1 <= min(tensor.values[1:]) <= max(tensor.values[1:]) <= 1


def test_whole_numbers_beside_fractions_are_small() -> None:
    whole = TensorRecipe((4, 5), "int64", ("integers", -(1 << 40), 1 << 40), 5000, leaf=False)
    others = list(operand_dtypes.of(Case("add", "int64", (whole, whole))))
    assert {t.dtype for other in others for t in other.tensors} == set(operand_dtypes.OTHERS)
    for tensor in (t for other in others for t in other.tensors if t != whole):
        assert isinstance(tensor, TensorRecipe)
        if tensor.dtype in INTEGER_RANGE:
            assert -9 <= min(tensor.values[1:]) <= max(tensor.values[1:]) <= 9


def test_an_index_keeps_its_dtype() -> None:
    index = TensorRecipe((4,), "int64", ("integers", 0, 3), 5000, leaf=False)
    case = Case("index_select", "float32", (MATRIX, 0, index))
    assert all(other.tensors[1] == index for other in operand_dtypes.of(case))


def test_options_that_are_tensors_get_other_dtypes_too() -> None:
    x, y, weight = (TensorRecipe((4,), "float16", UNIFORM, stop) for stop in (900, 1900, 2900))
    name = "nn.functional.binary_cross_entropy_with_logits"
    plain = [Case(name, "float16", (x, y), {}, stop) for stop in range(search.BASES + 1)]
    weighted = [Case(name, "float16", (x, y), {"weight": weight}, stop) for stop in (7, 8)]
    assert list(search._with_other_options([*plain, *weighted])) == weighted[:1]


def test_conditions_that_no_case_meets_are_sought() -> None:
    operator = operators.get("outer")
    found = search.further(operator, "int8")
    assert found
    assert all(is_possible(operator, case) for case in found)


def test_one_extreme_everywhere() -> None:
    whole = TensorRecipe((4, 5), "int16", ("integers", -9, 9), 5000)
    found = [built(case)[0] for case in values.of(Case("amax", "int16", (whole,)))]
    for limit in (-(2**15), 2**15 - 1):
        assert any(bool((tensor == limit).all()) for tensor in found)
    found = [built(case)[0] for case in values.of(Case("amax", "float32", (MATRIX,)))]
    for limit in (torch.inf, -torch.inf):
        assert any(bool((tensor == limit).all()) for tensor in found)
