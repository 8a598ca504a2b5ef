"""Predicates on cases: what they mean, what they refuse, and that nothing but their own error comes
out."""

from __future__ import annotations

import string
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import DType, Literal, TensorRecipe
from consistency.generate import search
from consistency.generate.materialize import literal, prepare
from consistency.generate.value_classes import CLASSES
from consistency.judge.known.argument_names import names_of
from consistency.judge.known.case_facts import FUNCTIONS, LAYOUTS, UNKNOWN, Facts, facts_of
from consistency.judge.known.dimensions import dimension_names, dimensions_of
from consistency.judge.known.predicate import MAX_DEPTH, MAX_LENGTH, PredicateError, parse

# a (32 × 300) in channels of its own memory order, b (300 × 8) contiguous
A = TensorRecipe(
    (300, 32), "float32", ("wide", -8, 8), 70000, (("transpose", 0, 1),), ((3, "-nan"), (5, "inf"))
)
B = TensorRecipe((300, 8), "float32")
MATMUL = Case("matmul", "float32", (A, B))


def holds(text: str, case: Case = MATMUL) -> bool:
    return parse(text).holds(Facts(case))


@pytest.mark.parametrize(
    "text",
    [
        "layout(arg0) != contiguous and K > 256", "layout(input) == transposed",
        "layout(arg1) == contiguous",
        "layout(arg0) in (strided, transposed)", "layout(arg0) not in (contiguous, expanded)",
        "K == 300 and M == 32 and N == 8",
        "shape(arg0) == (32, 300)", "shape(arg0) == [32, 300]", "shape(arg0)[-1] % 7 == 6",
        "stride(arg0) == (1, 32)",
        "dim(arg0) == 2", "numel(other) == 2400", "1 < M <= 32", "values(arg0) == wide",
        "values(arg0) != 'uniform'",
        "has_nan(arg0) and not has_nan(arg1)", "has_inf(arg0)", "special(arg0) == -nan",
        "'inf' in special(arg0)",
        "special(arg0) in (nan, -nan)", "dtype(arg0) == float32", "K / 2 > 149.5", "K // 256 == 1",
        "-K < 0", "K - M == 268", "K < 1.0e38", "K / 1.0e-300 > 1e300",
        "max(K, M, N) == 300", "min(shape(arg1)) == 8", "abs(M - K) > 200", "len(shape(arg0)) == 2",
        "arg0", "True",
        "offset(arg0) == 0", "K > 256 or layout(arg7) == contiguous", "not K < 256",
    ],
)  # fmt: skip
def test_what_is_true(text: str) -> None:
    assert holds(text)
    assert not holds(f"not ({text})")


@pytest.mark.parametrize(
    "text",
    [
        "layout(arg7) == contiguous", "layout(arg7) != contiguous", "arg7 == 3", "arg7 != 3",
        "nothing > 3", "K > 'text'",
        "shape(arg0)[5] == 3", "shape(arg0)[-3] == 3", "K / 0 > 1", "K % (M - 32) == 1", "arg0 > 3",
        "arg0 + 1 > 3", "3 in K",
        "layout(arg0)[0] == 3", "len(K) == 3", "min(arg0, K) == 3", "numel(K) == 3", "arg0[0] == 3",
        "layout(arg999999999) == strided", "shape(arg0) < (1, 2)",
    ],
)  # fmt: skip
def test_what_does_not_apply_holds_neither_way(text: str) -> None:
    assert not holds(text)
    assert not holds(f"not ({text})")
    assert not holds(f"({text}) and K == 300")
    assert holds(f"({text}) or K == 300")


def test_arguments_go_by_their_names_and_by_keyword() -> None:
    case = Case("nn.functional.interpolate", "float32", (TensorRecipe((1, 2, 3, 3), "float32"),),
                {"mode": "bilinear", "align_corners": True, "size": [6, 6]})  # fmt: skip
    assert holds("mode == 'bilinear' and align_corners and size == (6, 6) and C == 2", case)
    assert not holds("mode == 'nearest' or not align_corners", case)
    cast = Case(
        "softmax", "float32", (TensorRecipe((4, 5), "float32"), -1), {"dtype": DType("float64")}
    )
    assert holds("dim == -1 and N == 5 and dtype == 'float64' and dtype(input) == float32", cast)
    assert holds("arg1 == -1 and dim(arg0) == 2", cast)


def test_the_input_of_a_call_with_out_is_what_follows_it() -> None:
    empty, three = TensorRecipe((0,), "float32"), TensorRecipe((2, 3, 4), "float32")
    assert holds("dim(input) == 3 and dim(out) == 1", Case("exp.out", "float32", (empty, three)))
    inverse = Case("linalg.inv.out", "float32", (empty, three))  # whose argument is called A
    assert holds("dim(input) == 3 and dim(A) == 3 and dim(out) == 1", inverse)


def test_inputs_are_all_tensors_that_a_call_reads() -> None:
    large, small = (TensorRecipe((2,), "int64", ("integers", -end, end)) for end in (99, 9))
    assert holds("bound(inputs) == 99 and len(inputs) == 2", Case("add", "int64", (small, large)))
    assert holds("bound(inputs) == 9", Case("add.out", "int64", (large, small, small)))
    assert holds("bound(inputs) == 9", Case("add", "int64", (small, 3), {"out": large}))
    assert holds("bound(inputs) == 99", Case("cat", "int64", ([small, large], 0)))
    assert holds("bound(inputs[1]) == 9", Case("where", "int64", (large, small, 3)))
    assert holds("not bound(inputs) > 0 or True", Case("ones", "int64", ([2],)))


def test_the_first_argument_is_the_input_where_no_signature_is_known() -> None:
    x = TensorRecipe((2, 3, 4), "float32", special=((3, "inf"),))
    for name in ("nn.functional.max_pool1d", "log_softmax.with_dtype"):
        assert holds("has_inf(input) and dim(input) == 3", Case(name, "float32", (x, 2)))


def test_arguments_within_lists() -> None:
    case = Case("cat", "float32", ([TensorRecipe((2, 3), "float32"), A], 1))
    assert holds(
        "layout(arg0[1]) == transposed and layout(tensors[0]) == contiguous and dim == 1", case
    )
    assert not holds("layout(arg0) == contiguous", case)


def test_the_bound_of_a_list_is_that_of_its_largest_tensor() -> None:
    small, large = (TensorRecipe((2,), "int64", ("integers", -9, end)) for end in (9, 2**40))
    unknown = TensorRecipe((2,), "int64", ("normal", 0.0, 1.0))
    case = Case("cat", "int64", ([small, unknown, large], 0))
    assert holds(f"bound(arg0) == {2**40} and bound(arg0[0]) == 9", case)
    assert not holds("bound(arg1) > 0 or bound(arg0[1]) > 0", case)


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (TensorRecipe((2, 3), "float32"), {"contiguous"}),
        (TensorRecipe((3,), "float32", view=(("select", 0, 1),)), {"contiguous", "scalar",
        "offset"}),
        (TensorRecipe((0, 3), "float32"), {"contiguous", "empty"}),
        (TensorRecipe((2, 4, 4, 3), "float32", view=(("permute", 0, 3, 1, 2),)), {"transposed",
        "channels_last"}),
        (TensorRecipe((2, 4, 4, 4, 3), "float32", view=(("permute", 0, 4, 1, 2, 3),)),
        {"transposed", "channels_last"}),
        (TensorRecipe((9, 3), "float32", view=(("slice", 0, 1, 8, 2),)), {"strided", "offset"}),
        (TensorRecipe((9, 3), "float32", view=(("slice", 0, 2, 5, None),)), {"contiguous",
        "offset"}),
        (TensorRecipe((1, 3), "float32", view=(("expand", 4, 3),)), {"expanded", "overlapping"}),
        (TensorRecipe((8,), "float32", view=(("unfold", 0, 3, 1),)), {"overlapping"}),
        (literal(torch.ones(3, 4).t()), {"transposed"}),
    ],
)  # fmt: skip
def test_layouts_have_words(tensor: TensorRecipe, words: set[str]) -> None:
    case = Case("exp", "float32", (tensor,))
    assert {word for word in LAYOUTS if holds(f"layout(arg0) == {word}", case)} == words
    assert {word for word in LAYOUTS if not holds(f"layout(arg0) != {word}", case)} == words


def test_facts_are_made_once_for_a_case_that_many_entries_are_asked_about() -> None:
    cases = [
        Case("exp", "float32", (TensorRecipe((n, 2), "float32", ("uniform", 0.0, 1.0), 100 * n),))
        for n in (3, 4)
    ]
    rows = parse("shape(arg0)[0] == 3")
    assert facts_of(cases[0]) is facts_of(cases[0])
    assert [rows.holds(facts_of(case)) for case in cases * 2] == [True, False] * 2


def test_facts_are_those_of_the_tensors() -> None:
    for name in ("matmul", "nn.functional.conv2d", "cat", "sum", "nn.functional.group_norm"):
        for case in search.batch(operators.get(name), "float32", 40, 3):
            facts, built = Facts(case), prepare(case).build()
            for tensor, made in zip(case.tensors, built.tensors, strict=True):
                shape, stride, offset = (
                    facts.described(f, tensor) for f in ("shape", "stride", "offset")
                )
                assert (shape, stride, offset) == (
                    tuple(made.shape),
                    made.stride(),
                    made.storage_offset(),
                )
                layout = facts.described("layout", tensor)
                assert ("contiguous" in layout) == made.is_contiguous()
                form = {4: torch.channels_last, 5: torch.channels_last_3d}.get(made.ndim)
                last = form and made.numel() and made.is_contiguous(memory_format=form)
                assert ("channels_last" in layout) == bool(
                    last and not made.is_contiguous() and "overlapping" not in layout
                )


def test_zeros_are_special_values_numbers_of_a_class_or_blanks() -> None:
    def exp_of(*values: object, stop: int = 900, dtype: str = "float32", **more: Any) -> Case:
        return Case("exp", dtype, (TensorRecipe((40,), dtype, values, stop, **more),))

    uniform = "uniform", 1.0, 2.0
    assert holds("has_zero(arg0)", exp_of(*uniform, special=((3, "-0"),)))
    assert holds("has_zero(arg0)", exp_of("integers", -4, 4))
    assert holds("has_zero(arg0)", exp_of(*uniform, stop=39))
    assert holds("has_zero(arg0)", exp_of(*uniform, stop=79, dtype="complex64"))
    assert holds("not has_zero(arg0)", exp_of(*uniform, stop=80, dtype="complex64"))
    assert holds("not has_zero(arg0)", exp_of(*uniform, special=((3, "nan"),)))
    for numbers in ((1.0, -0.0), (1.0, 2.0)):
        data = np.array(numbers, "<f4").tobytes()
        case = Case("exp", "float32", (Literal(data, "float32", (2,), (1,)),))
        assert holds("has_zero(arg0)" if 0.0 in numbers else "not has_zero(arg0)", case)


def test_specials_among_bit_patterns_are_looked_up() -> None:
    def exp_of(*values: object, size: int = 1, dtype: str = "float32") -> Case:
        return Case("exp", dtype, (TensorRecipe((size,), dtype, values),))

    for dtype, infinity in (("float16", 0x7C00), ("bfloat16", 0x7F80), ("float32", 0x7F800000)):
        whole = exp_of("landmarks", size=2048, dtype=dtype)
        assert holds("has_nan(arg0) and has_inf(arg0) and special(arg0) == -inf", whole)
        single = exp_of("every", infinity, dtype=dtype)
        assert holds("has_inf(arg0) and not has_nan(arg0)", single)
        assert holds(
            "has_nan(arg0) and not has_inf(arg0)", exp_of("every", infinity + 1, dtype=dtype)
        )
        assert holds("not has_nan(arg0)", exp_of("every", infinity - 9, size=9, dtype=dtype))
    for spread in (
        exp_of("every", 0, size=65536, dtype="float16"),
        exp_of("every", 0, 65537, size=65536),
    ):
        assert holds("has_nan(arg0)", spread)
    assert holds("not has_nan(arg0)", exp_of("every", -1, size=9))  # it cannot be made


def test_specials_of_literal_tensors_are_looked_up_in_their_bits() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64):
        case = Case(
            "exp",
            "float32",
            (literal(torch.tensor([1.0, float("nan"), float("-inf")], dtype=dtype)),),
        )
        assert holds("has_nan(arg0) and special(arg0) == -inf and not special(arg0) == inf", case)
    assert holds(
        "not has_nan(arg0) and values(arg0) == literal",
        Case("exp", "int64", (literal(torch.tensor([1])),)),
    )


def test_dimensions_are_those_of_the_product() -> None:
    x, w = TensorRecipe((2, 6, 9, 10), "float32"), TensorRecipe((4, 3, 3, 5), "float32")
    assert dimensions_of("nn.functional.conv2d", Facts(Case("nn.functional.conv2d", "float32", (x,
    w)))) == {
        "C": 6, "M": 4, "k": 5, "H": 9, "W": 10, "K": 45,
    }  # fmt: skip
    for name in (
        "matmul",
        "addmm",
        "nn.functional.linear",
        "sum",
        "nn.functional.conv_transpose2d",
        "nn.functional.group_norm",
    ):
        for case in search.batch(operators.get(name), "float32", 20, 1):
            assert set(dimensions_of(name, Facts(case))) <= set(dimension_names(name))
    for case in search.batch(operators.get("matmul"), "float32", 40, 1):
        a, b = prepare(case).build().args
        assert holds(f"K == {a.shape[-1]}", case)
        assert holds(f"N == {b.shape[-1] if b.ndim > 1 else 1}", case)


def test_a_name_that_an_operator_lacks_is_unknown() -> None:
    """``N`` of a reduction is computed from ``dim``, which some reductions do not have."""
    x = TensorRecipe((2, 3), "float32")
    for name in operators.registry():
        facts = Facts(Case(name, "float32", (x,)))
        for asked in ("dim", "kernel_size", "no_such_name"):
            known = asked in (*names_of(name), *dimension_names(name))
            assert known or facts.named(asked) is UNKNOWN


def test_names_come_from_signatures_documentation_and_schemas() -> None:
    assert {"input", "other"} <= names_of("matmul")
    assert {"weight", "stride", "groups"} <= names_of("nn.functional.conv2d")
    assert {"dim", "keepdim"} <= names_of("sum")
    assert {"out", "other"} <= names_of("matmul.out")
    out = Case("matmul.out", "float32", (B, A, B))
    assert holds("layout(input) == transposed and layout(out) == contiguous", out)
    aten = Case("aten.addmm", "float32", (B, A, B), source="aten/addmm.default")
    assert holds("layout(mat1) == transposed", aten)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("layout(arg0) == contigous", ("has 'contigous', which is no layout; did you mean "
        "contiguous?")),
        ("values(arg0) == wid", "which is no value class; did you mean wide?"),
        ("special(arg0) == nann", "which is no special value; did you mean nan"),
        ("dtype(arg0) == float3", "which is no dtype; did you mean float32"),
        ("layuot(arg0) == strided",
        "has 'layuot', which is no function here; did you mean layout?"),
        ("layout(arg0)", "has 'layout(arg0)' alone; compare it: layout(arg0) == contiguous"),
        ("K ** 9 > 1", "has 'K ** 9', which is not allowed; allowed are comparisons"),
        ("K << 9 > 1", "which is not allowed"),
        ("torch.K > 1", "has 'torch.K', which is not allowed"),
        ("[x for x in arg0]", "where a condition is wanted"),
        ("(lambda: 1)() > 0", "which is not allowed"),
        ("__import__('os') == 1", "has '__import__', which is no function here"),
        ("K is None", "has 'is' in it; write == or !="),
        ("layout(K > 3) == strided", ("has layout() of something that is no argument; write it "
        "like layout(arg0)")),
        ("layout() == strided", "has layout() of something that is no argument"),
        ("abs() > 1", "has abs() with 0 arguments; give it one"),
        ("shape(arg0)[1:2] == 3", "what is in brackets is a whole number"),
        ("shape(arg0)[K] == 3", "what is in brackets is a whole number"),
        ("K >", "is no condition"),
        ("", "is no condition"),
        ("K = 3", "is no condition near '= 3'"),
        ("import os", "is no condition near"),
        ("K > 1\n", None),
        ("'\\x00' == K", "has a backslash in it"),
        ("K > 1e999", "which is not allowed"),
        ("K > 1j", "which is not allowed"),
        ("K > " + "9" * 60, "which is not allowed"),
        ("K > " + "9" * 6000, f"is longer than {MAX_LENGTH} characters"),
        ("not " * 60 + "K", f"is nested more than {MAX_DEPTH} deep"),
        ("(" * 190 + "K" + ")" * 190, None),
        ("-" * 300 + "1 > K", f"is nested more than {MAX_DEPTH} deep"),
        ("f'{K}' == 3", "which is not allowed"),
        ("'it''s' == mode", None),
    ],
)  # fmt: skip
def test_mistakes_name_the_remedy(text: str, words: str | None) -> None:
    if words is None:
        parse(text)
        return
    with pytest.raises(PredicateError) as caught:
        parse(text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


# What can be written, from the inside out.
_TENSOR = st.sampled_from(["arg0", "arg1", "input", "arg0[1]", "weight"])
_NUMBER = st.one_of(
    st.integers(-(10**9), 10**9).map(str), st.floats(-1e6, 1e6).map(repr), st.sampled_from(["K",
    "M", "dim", "shape(arg0)[-1]"]),
    st.builds("{}({})".format, st.sampled_from(["numel", "dim", "offset"]), _TENSOR),
)  # fmt: skip
_SUM = st.one_of(
    _NUMBER,
    st.builds(
        "({} {} {})".format, _NUMBER, st.sampled_from(["+", "-", "*", "/", "//", "%"]), _NUMBER
    ),
)
_TEST = st.one_of(
    st.builds("{} {} {}".format, _SUM, st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), _SUM),
    st.builds("layout({}) {} {}".format, _TENSOR, st.sampled_from(["==", "!="]),
    st.sampled_from(LAYOUTS)),
    st.builds("values({}) == {}".format, _TENSOR, st.sampled_from(sorted(CLASSES))),
    st.builds("{} in ('a', 3, None)".format, _NUMBER), st.builds("has_nan({})".format, _TENSOR),
    st.sampled_from(["mode", "True"]),
)  # fmt: skip
_PREDICATE = st.recursive(
    _TEST,
    lambda inner: st.one_of(
        st.builds("({} and {})".format, inner, inner), st.builds("({} or {})".format, inner, inner),
        inner.map("not {}".format)
    ),
    max_leaves=4,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(_PREDICATE)
def test_what_is_formatted_reads_as_the_same_predicate(text: str) -> None:
    try:
        found = parse(text)
    except PredicateError as error:
        if "longer" not in str(error) and "nested" not in str(error):
            raise
        return
    again = parse(str(found))
    assert again == found
    assert str(again) == str(found)
    assert again.holds(Facts(MATMUL)) == found.holds(Facts(MATMUL))


_PIECES = st.sampled_from(
    [*FUNCTIONS, *LAYOUTS, "arg0", "K", "(", ")", "[", "]", ",", "and", "or", "not", "in", "is",
    "==", "<", "**", "*", "-", "%",
     "'", '"', "lambda", ":", "=", "1", "0.5", "None", "{", "}", "f'", "if", "else", "for", "@",
     "~", ".", ":=", "await", "\\",
     "\0", "#"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.text(max_size=60),
        st.text(string.printable, max_size=60),
        st.lists(_PIECES, max_size=14).map(" ".join),
    )
)
def test_nothing_but_its_own_error_comes_out(text: str) -> None:
    try:
        found = parse(text)
    except PredicateError as refused:
        found, words = None, str(refused)
        assert words.isprintable()
    if found is None:
        return
    assert parse(str(found)) == found
    assert isinstance(found.holds(Facts(MATMUL)), bool)


def test_the_worst_that_fits_ends() -> None:
    worst = "*".join(["999999999999999999"] * 19) + " > K"
    assert len(worst) < MAX_LENGTH
    with pytest.raises(PredicateError, match="nested"):
        parse(worst)
    flat = " and ".join(["K * K * K * K * K != 1"] * 14)
    assert parse(flat).holds(Facts(MATMUL))


def test_a_length_of_minus_one_is_that_of_the_signal() -> None:
    x = TensorRecipe((6, 9), "float32")
    for name, lengths in (("fft.fft2", {"N": 9, "P": 3}), ("fft.irfft2", {"N": 16, "P": 2})):
        case = Case(name, "float32", (x,), {"s": [6, -1]})
        assert dimensions_of(name, Facts(case)) == dimensions_of(
            name, Facts(Case(name, "float32", (x,), {"s": [6, lengths["N"]]}))
        )


def test_a_frame_of_a_short_time_transform_has_its_own_length() -> None:
    x = TensorRecipe((2, 200), "float32")
    by_position = Case("stft", "float32", (x, 86, 21), {})
    by_name = Case("stft", "float32", (x,), {"n_fft": 86})
    for case in (by_position, by_name):
        assert dimensions_of("stft", Facts(case)) == {"N": 86, "P": 43}
