"""Recipes: the same line for ever, the same argument back from it, and one clear line for whatever
is not a recipe."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from consistency.core import dtypes, recipe
from consistency.core.case_source import CaseSource, call_source, parse_source
from consistency.core.model import Case
from consistency.core.recipe import DType, Index, Literal, MemoryFormat, TensorRecipe
from consistency.errors import RecipeError, UsageError
from consistency.generate import value_classes as values
from consistency.generate.materialize import Materials, prepare

LINE = (
    '{"args":[{"tensor":{"base":[3,5],"dtype":"float32","special":[[4,"nan"],[-1,"-0"]],"stop":99,'
    '"values":["uniform",-1.0,1.0],"view":[["slice",1,0,null,2],["transpose",0,1]]}},-1,{"float":"inf"},0.5,null,true],'
    '"cotangent":7,"dtype":"float32","kwargs":{"dim":{"tuple":[0,-1]},"dtype":{"dtype":"float64"},"index":[{"ellipsis":true},'
    '{"slice":[null,3,null]}],"memory_format":{"memory_format":"channels_last"},"mode":"\\u00e9t\\u00e9",'
    '"weight":{"literal":{"bytes":8,"dtype":"float32","hex":"0000803f000000c0","offset":0,'
    '"sha256":"ee4ac73c2bd27756ab82780f27c73a7bc4d3f0bb6acb37e008bc27eccd7e588b","shape":[2],"stride":[1]}}},'
    '"operator":"nn.functional.softmax"}'
)
CASE = Case(
    "nn.functional.softmax",
    "float32",
    (
        TensorRecipe(
            (3, 5), "float32", stop=99, view=(("slice", 1, 0, None, 2), ("transpose", 0, 1)),
            special=((4, "nan"), (-1, "-0"))
        ),
        -1, math.inf, 0.5, None, True,
    ),
    {
        "weight": Literal(bytes.fromhex("0000803f000000c0"), "float32", (2,), (1,)), "mode": "été",
        "dim": (0, -1),
        "dtype": DType("float64"), "memory_format": MemoryFormat("channels_last"), "index": [...,
        Index(None, 3)],
    },
    7,
)  # fmt: skip


def tensor(**changes: Any) -> dict[str, Any]:
    return {
        "tensor": {"base": [4], "dtype": "float32", "values": ["uniform", -1.0, 1.0], "stop": 9}
        | changes
    }


def literal(**changes: Any) -> dict[str, Any]:
    data = bytes(range(16))
    body = {
        "sha256": hashlib.sha256(data).hexdigest(),
        "dtype": "float32",
        "bytes": 16,
        "hex": data.hex(),
    }
    return {"literal": body | {"shape": [4], "stride": [1], "offset": 0} | changes}


def case(*args: Any, **changes: Any) -> dict[str, Any]:
    return {
        "operator": "exp",
        "dtype": "float32",
        "args": list(args),
        "kwargs": {},
        "cotangent": 0,
    } | changes


def built(data: Any) -> Materials:
    """Parsed JSON all the way to tensors."""
    materials = prepare(Case.from_line(json.dumps(data)))
    materials.build()
    materials.build("float64", gradients=True)
    return materials


# The same for ever.


def test_the_golden_line_and_digest() -> None:
    assert CASE.line == LINE
    assert CASE.digest == "71f1e1ebd197cdf8c8611f5da4f2b38cd1465cfdd8e7257f3481921748d5e4e5"
    assert CASE.id == "softmax-71f1e1ebd1"


def test_the_golden_line_gives_the_case_back() -> None:
    again = Case.from_line(LINE)
    assert again == CASE
    assert again.line == LINE


def test_spelling_does_not_matter() -> None:
    """Spaces and the order of keys are not part of a case's identity."""
    shuffled = dict(reversed(json.loads(LINE).items()))
    shuffled["kwargs"] = dict(reversed(shuffled["kwargs"].items()))
    assert Case.from_line(json.dumps(shuffled, indent=3)).digest == CASE.digest


def test_the_order_of_keyword_arguments_does_not_matter() -> None:
    """Tensors are numbered by position: the line must number them as the arguments do."""
    one, two = TensorRecipe((2,), "float32", stop=5), TensorRecipe((3,), "float32", stop=9)
    case = Case("op", "float32", (), {"weight": one, "bias": two})
    same = Case("op", "float32", (), {"bias": two, "weight": one})
    again = Case.from_line(case.line)
    assert case == same == again
    assert prepare(case).sha256 == prepare(same).sha256 == prepare(again).sha256
    assert [t.shape for t in prepare(case).build().tensors] == [
        t.shape for t in prepare(again).build().tensors
    ]


# There and back.

small = st.integers(0, 4)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just(...)
)
drawn = st.builds(
    TensorRecipe,
    st.lists(small, max_size=3).map(tuple),
    st.sampled_from(dtypes.ALL),
    st.lists(st.one_of(st.integers(), st.floats(), st.text(max_size=5)), max_size=3).map(tuple),
    st.integers(-(1 << 40), 1 << 40),
    st.lists(st.tuples(st.text(max_size=5), st.one_of(st.none(), st.integers())), max_size=3).map(
        tuple
    ),
    st.lists(st.tuples(st.integers(), st.text(max_size=3)), max_size=2).map(tuple),
)
literals = st.builds(
    Literal,
    st.binary(max_size=recipe.INLINE_BYTES),
    st.sampled_from(dtypes.ALL),
    st.tuples(small),
    st.tuples(small),
    small,
)
whole = st.one_of(st.none(), st.integers())
leaves = st.one_of(
    scalars, drawn, literals, st.builds(DType, st.text()), st.builds(Index, whole, whole, whole),
    st.sampled_from(recipe.MEMORY_FORMATS).map(MemoryFormat),
)  # fmt: skip


def trees(depth: int) -> st.SearchStrategy[Any]:
    if not depth:
        return leaves
    items = st.lists(trees(depth - 1), max_size=3)
    return st.one_of(leaves, items, items.map(tuple))


@given(trees(3))
def test_an_argument_comes_back_from_its_json(arg: Any) -> None:
    line = recipe.canonical(recipe.encode(arg))
    again = recipe.decode(json.loads(line))
    assert repr(again) == repr(
        arg
    )  # not ==, which calls 1 and 1.0 and True the same, and NaN different
    assert recipe.canonical(recipe.encode(again)) == line
    assert "\n" not in line
    assert line.isascii()


@given(
    st.lists(trees(2), max_size=3),
    st.dictionaries(st.text(max_size=4), trees(1), max_size=3),
    st.integers(0, 1 << 40),
)
def test_a_case_comes_back_from_its_line(
    args: list[Any], kwargs: dict[str, Any], cotangent: int
) -> None:
    there = Case("op", "float32", tuple(args), kwargs, cotangent)
    assert Case.from_line(there.line).line == there.line


@given(trees(3), trees(3))
def test_different_arguments_have_different_lines(one: Any, two: Any) -> None:
    same = recipe.canonical(recipe.encode(one)) == recipe.canonical(recipe.encode(two))
    assert same == (repr(one) == repr(two))


def test_a_large_literal_travels_beside_the_line() -> None:
    data = bytes(4 * recipe.INLINE_BYTES)
    there = Case("exp", "float32", (Literal(data, "float32", (recipe.INLINE_BYTES,), (1,)),))
    digest = hashlib.sha256(data).hexdigest()
    assert data.hex() not in there.line
    assert Case.from_line(there.line, {digest: data}) == there
    with pytest.raises(
        RecipeError,
        match=(
            f"the literal tensor {digest[:12]}… is not beside this case; give the folder it came in"
        ),
    ):
        Case.from_line(there.line)
    with pytest.raises(RecipeError, match="does not match its SHA-256: damaged or replaced"):
        Case.from_line(there.line, {digest: data[:-1] + b"\1"})


def test_bytes_in_the_line_need_no_name() -> None:
    named = Case("exp", "float32", (Literal(bytes(8), "float32", (2,), (1,)),))
    data = json.loads(named.line)
    body = data["args"][0]["literal"]
    for derived in ("sha256", "bytes", "offset"):
        del body[derived]
    assert Case.from_json(data) == named
    assert Case.from_json(data).line == named.line
    del body["hex"]
    with pytest.raises(RecipeError, match="malformed 'literal' in a recipe: 'sha256' is missing"):
        Case.from_json(data)


def test_what_is_no_argument_is_refused() -> None:
    for thing in (object(), {"a": 1}, torch.device("cpu")):
        with pytest.raises(
            RecipeError,
            match=f"an argument of type {type(thing).__name__} cannot be part of a recipe",
        ):
            recipe.encode(thing)


# Nonsense.

LINES = {
    "": "not a case: Expecting value",
    "matmul": "not a case: Expecting value",
    "[]": "a case is a JSON object",
    "{}": "a case needs 'operator' and 'dtype' as text",
    '{"operator":"exp","dtype":"float32","seed":1}': "'seed' is not a key of a case",
    '{"operator":"exp","dtype":"float32","args":{}}': "a case's 'args' is a list",
    '{"operator":"exp","dtype":"float32","cotangent":1.5}': "its 'cotangent' a whole number",
    '{"operator":"exp","dtype":"float32","cotangent":2000000000000}': ("is beyond the end of the "
    "bitstream (2**40)"),
    '{"operator":"exp","dtype":"float32","args":[' + "9" * 5000 + "]}": ("Exceeds the limit (4300 "
    "digits)"),
    "[" * 100_000: "not a case: maximum recursion depth exceeded",
}  # fmt: skip


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[:50])
def test_a_line_that_is_no_case(line: str) -> None:
    with pytest.raises(RecipeError) as caught:
        Case.from_line(line)
    assert LINES[line] in str(caught.value)
    assert "\n" not in str(caught.value)


BIG = 1 << 62
ARGUMENTS: list[tuple[Any, str]] = [
    ({"a": 1, "b": 2}, "expected a value, a list or an object with one key, not {'a': 1, 'b': 2}"),
    ({}, "expected a value, a list or an object with one key, not {}"),
    ({"array": []}, "'array' is not a kind of argument; known: tensor, literal, dtype"),
    ([[[[[[[[[1]]]]]]]]], "nested more than 8 deep"),
    ({"tuple": "abc"}, "expected a list, not 'abc'"),
    ({"slice": [1, 2]}, "malformed 'slice' in a recipe"),
    ({"slice": [1, 2, True]}, "expected a whole number, not True"),
    ({"float": "half"}, "malformed 'float' in a recipe: could not convert"),
    ({"dtype": 32}, "expected text, not 32"),
    ({"dtype": "floot32"}, "unknown dtype 'floot32'; did you mean float32"),
    ({"memory_format": "load"}, "unknown memory format 'load'; known: contiguous_format"),
    ({"tensor": None}, "a tensor recipe is an object, not None"),
    ({"tensor": {"dtype": "float32"}}, "malformed 'tensor' in a recipe: 'base' is missing"),
    (tensor(seed=3), "'seed' is not a key of a tensor recipe"),
    (tensor(base=[-1]), "negative size in shape [-1]"),
    (tensor(base=""), "expected a list, not ''"),
    (tensor(base=[1 << 29]), "is larger than a recipe may be (268435456 elements, 16 dimensions)"),
    (tensor(base=[0, BIG]), "is larger than a recipe may be"),
    (tensor(base=[BIG] * 16), "is larger than a recipe may be"),
    (tensor(base=[1] * 17), "is larger than a recipe may be"),
    (tensor(base=[1.0]), "expected a whole number, not 1.0"),
    (tensor(stop=BIG), "is beyond the end of the bitstream (2**40)"),
    (tensor(dtype="complex64", special=[[8, "nan"]]),
    "special value at position 8 of 4 complex numbers"),
    (tensor(dtype="complex32"), "tensors of dtype 'complex32' cannot be drawn; known: float64"),
    (tensor(values=[]), "unknown value class ()"),
    (tensor(values=["gaussian"]), "unknown value class ('gaussian',)"),
    (tensor(values=["uniform", tensor(), 1.0]), "expected a number or a name, not {'tensor'"),
    (tensor(values=["uniform", {"float": "inf"}, 1.0]),
    "inf is neither a finite number nor a name"),
    (tensor(special=[[0]]), "malformed 'tensor' in a recipe"),
    (tensor(special=[[4, "nan"]]), "special value at position 4 of a tensor with 4 elements"),
    (tensor(view=[[]]), "expected text, not None"),
    (tensor(view=[["storage"]]),
    "unknown view 'storage'; known: as_strided, conj, expand, permute"),
    (tensor(view=[["expand", "a"]]), "expected a whole number, not 'a'"),
    (tensor(view=[["slice", 1, 0, 2, None]]), ("slice along dimension 1 of a tensor with 1 "
    "dimensions")),
    (tensor(view=[["slice", BIG, 0, 2, None]]), "slice along dimension 4611686018427387904"),
    (tensor(view=[["slice", 0, 0, 2, -1]]), ("the chain of views does not fit its base: step must "
    "be greater than zero")),
    (tensor(view=[["as_strided", 4, 1, 1]]),
    "the chain of views does not fit its base: setStorage"),
    (tensor(view=[["as_strided", 1 << 40, 0, 0]]), ("view 'as_strided' makes a tensor larger than "
    "a recipe may be")),
    (tensor(view=[["as_strided", 2, BIG, 0]]), "the chain of views does not fit its base"),
    (tensor(view=[["as_strided", 1, 1, -1]]), "the chain of views does not fit its base"),
    (tensor(base=[1], view=[["expand", 1 << 40]]), ("view 'expand' makes a tensor larger than a "
    "recipe may be")),
    (tensor(base=[1], view=[["expand", 1 << 80]]), "the chain of views does not fit its base"),
    (tensor(view=[["select", 0, 4]]), "the chain of views does not fit its base"),
    (tensor(view=[["unfold", 0, 2, 0]]), "the chain of views does not fit its base"),
    ({"literal": []}, "a literal tensor is an object, not []"),
    (literal(path="/etc/passwd"), "'path' is not a key of a literal tensor"),
    (literal(sha256="0" * 64), ("the literal tensor 000000000000… does not match its SHA-256: "
    "damaged or replaced")),
    (literal(hex="zz"), "malformed 'literal' in a recipe: non-hexadecimal number"),
    (literal(dtype="object"), "literal tensor of unknown dtype 'object'; known: float64"),
    (literal(dtype="float8_e5m2", shape=[16]), ("literal tensor of unknown dtype 'float8_e5m2'; "
    "known: float64")),
    (literal(dtype="bool", shape=[16]), ("literal tensor of dtype 'bool' holds bytes other than 0 "
    "and 1")),
    (literal(shape=[5]), "shape [5] with strides [1] reaches beyond the 4 stored elements"),
    (literal(stride=[]), "shape [4], strides [] and offset 0 do not fit together"),
    (literal(stride=[-1]), "do not fit together"),
    (literal(offset=-1), "do not fit together"),
    (literal(offset=1), "reaches beyond the 4 stored elements"),
    (literal(shape=[0], offset=BIG), "do not fit together"),
    (literal(shape=[1], stride=[1 << 80]), "the chain of views does not fit its base"),
]  # fmt: skip


@pytest.mark.parametrize(("argument", "words"), ARGUMENTS, ids=lambda part: str(part)[:40])
def test_a_malformed_argument_is_refused_in_one_line(argument: Any, words: str) -> None:
    with pytest.raises(RecipeError) as caught:
        built(case(argument))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_case_of_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(
        RecipeError, match=r"unknown dtype 'float31'; did you mean float32 or float16\?"
    ):
        built(case(dtype="float31"))


def test_many_large_tensors_together_are_refused() -> None:
    with pytest.raises(
        RecipeError,
        match="tensors of this case have 805306368 elements together; a recipe may have 268435456",
    ):
        built(case(*[tensor(base=[1 << 28])] * 3))


json_leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-4, 4), st.floats(), st.text(max_size=5),
    st.sampled_from([*values.CLASSES, *values.SPECIAL, *dtypes.TORCH, "tensor", "literal", "slice",
    "float"]),
)  # fmt: skip
keys = st.text(max_size=5)
anything = st.recursive(
    json_leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=3),
)
views = st.sampled_from(
    [
        ("transpose", 0, 1),
        ("slice", 0, 0, 2, None),
        ("expand", 2, 2),
        ("as_strided", 2, 2, 1, 1, 0),
        ("unfold", 0, 1, 1),
    ]
)
sensible = st.builds(
    lambda values, dtype, view, special: tensor(base=[2, 2], values=list(values), dtype=dtype,
    view=[list(view)], special=special),
    st.sampled_from(
        [("uniform", -1.0, 1.0), ("normal", 0.0, 1.0), ("wide", -3, 3, 1), ("offset", 8.0, 1.0),
        ("integers", -4, 4),
         ("sparse", 0.5), ("near", 0.0, 9.0, 1.0), ("tokens", 0.0, 1.0, "nan"), ("diagonal", 2,
         3.0), ("ascending", 0.0, 1.0)]
    ),
    st.sampled_from(dtypes.ALL), views, st.sampled_from([[], [[1, "nan"]]]),
)  # fmt: skip
arguments = st.one_of(
    sensible, st.just(literal()), st.just({"slice": [0, None, 1]}), st.just({"tuple": [1,
    {"dtype": "float64"}]}),
    st.just({"memory_format": "channels_last"}),
)  # fmt: skip


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in parsed JSON, as the keys that lead there."""
    yield path
    for key, item in (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    ):
        yield from places(item, (*path, key))


def changed(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    data = copy.copy(data)
    data[path[0]] = changed(data[path[0]], path[1:], value)
    return data


def is_one_line(error: RecipeError) -> None:
    assert "\n" not in str(error)
    assert len(str(error)) < 400


def refused_or_sound(data: Any) -> None:
    try:
        materials = built(data)
    except RecipeError as error:
        return is_one_line(error)
    again = prepare(Case.from_line(materials.case.line))
    assert again.case.line == materials.case.line
    assert again.sha256 == materials.sha256
    return None


@pytest.fixture(autouse=True)
def _small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "fuzz" in request.node.name:
        monkeypatch.setattr(recipe, "MAX_ELEMENTS", 1 << 12)


@given(anything)
def test_fuzz_any_json(data: Any) -> None:
    refused_or_sound(data)


@given(arguments, st.data())
@settings(max_examples=5 * settings.default.max_examples)
def test_fuzz_one_wrong_part_in_a_good_case(argument: Any, data: st.DataObject) -> None:
    good = case(argument)
    path = data.draw(st.sampled_from(list(places(good))), label="place")
    refused_or_sound(
        changed(good, path, data.draw(st.one_of(json_leaves, anything, arguments), label="value"))
    )


@given(st.text())
@example("\ud800")
@example('{"operator":"exp","dtype":"\\ud800","args":[]}')
def test_fuzz_any_text(text: str) -> None:
    try:
        prepare(Case.from_line(text))
    except RecipeError as error:
        is_one_line(error)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("", CaseSource()),
        ("opinfo", CaseSource("opinfo")),
        ("opinfo/with_bias", CaseSource("opinfo", "with_bias")),
        ("call/torch.add", CaseSource("call", "torch.add")),
        ("call/Tensor.add_/writes=0,2", CaseSource("call", "Tensor.add_", "0,2")),
        ("aten/add.Tensor", CaseSource("aten", "add.Tensor")),
        ("yours/f.<locals>.g/h", CaseSource("yours", "f.<locals>.g/h")),
        ("tomorrow/x", CaseSource("tomorrow", "x")),
    ],
)
def test_sources_of_cases(text: str, source: CaseSource) -> None:
    assert parse_source(text) == source
    assert str(source) == text


def test_positions_that_a_call_writes_to() -> None:
    assert parse_source(call_source("Tensor.add_", (0, 2))).writes == (0, 2)
    assert parse_source(call_source("torch.add")).writes == ()
    with pytest.raises(UsageError, match="does not say which tensors are written"):
        _ = parse_source("call/Tensor.add_/writes=x").writes
