"""NumPy as a backend: what goes in, what comes out, what is refused, and results in long double."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from consistency import operators
from consistency.backends import _numerics, resolve
from consistency.backends import numpy as numpy_ops
from consistency.backends.listing import describe
from consistency.backends.numpy.backend import Numpy
from consistency.backends.numpy.reductions import row_deviation
from consistency.core.model import Case, Outcome
from consistency.core.recipe import DType, Index, MemoryFormat, TensorRecipe
from consistency.generate.materialize import Materials, prepare
from consistency.operators.declare import Operator, call
from tests.support.snapshots import Snapshot

Implementations = Callable[..., None]
WIDER = np.finfo(np.longdouble).nmant > 52


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Implementations:
    """Makes a function the only implementation, under the name ``thing``."""

    def install(function: Callable[..., Any], *, wide: bool = False) -> None:
        monkeypatch.setattr(numpy_ops, "IMPLEMENTATIONS", {"thing": function})
        monkeypatch.setattr(numpy_ops, "WIDE", frozenset({"thing"} if wide else ()))

    return install


def operator(name: str = "thing", **changes: Any) -> Operator:
    function = changes.pop("function", torch.neg)
    return Operator(name=name, family="test", sample=lambda d: call(), function=function, **changes)


def materials(*args: Any, main: str = "float32", **kwargs: Any) -> Materials:
    return prepare(Case("thing", main, args or (TensorRecipe((4,), main, stop=100),), kwargs))


def run(*args: Any, **kwargs: Any) -> Outcome:
    return Numpy().run(operator(), materials(*args, **kwargs))


X = TensorRecipe((4,), "float32", stop=100)


def test_the_same_numbers_through_real_implementations() -> None:
    operators = operator("matmul", function=torch.matmul), operator("max", function=torch.max)
    numpy, cpu = resolve("numpy"), resolve("cpu")
    square = TensorRecipe((6, 6), "float32", stop=300, view=(("transpose", 0, 1),))
    for chosen, args in ((operators[0], (square, square)), (operators[1], (square, 1))):
        ours, theirs = numpy.run(chosen, materials(*args)), cpu.run(chosen, materials(*args))
        assert (ours.status, theirs.status) == ("ok", "ok")
        assert [o.name for o in ours.outputs] == [o.name for o in theirs.outputs]
        for got, want in zip(ours.outputs, theirs.outputs, strict=True):
            assert got.dtype == want.dtype
            torch.testing.assert_close(got.tensor, want.tensor)


def test_what_an_implementation_is_given(offer: Implementations) -> None:
    seen: list[Any] = []

    def look(*args: Any, **kwargs: Any) -> Any:
        seen.append((args, kwargs))
        return args[0]

    offer(look)
    view = TensorRecipe(
        (4, 2), "float32", stop=100, view=(("transpose", 0, 1), ("slice", 1, 0, None, 2))
    )
    assert (
        run(
            view, [X, 2], (1.5, None), DType("float16"), Index(0, 2), dim=-1, dtype=DType("int64")
        ).status
        == "ok"
    )
    args, kwargs = seen[0]
    assert isinstance(args[0], np.ndarray)
    assert (args[0].shape, args[0].strides, args[0].dtype) == ((2, 2), (4, 16), np.float32)
    assert isinstance(args[1], list)
    assert isinstance(args[1][0], np.ndarray)
    assert args[1][1] == 2
    assert args[2:] == ((1.5, None), "float16", slice(0, 2, None))
    assert kwargs == {"dim": -1, "dtype": "int64"}


@pytest.mark.parametrize(("result", "expected"), [
    (np.float32(1.5), [("float32", (), 1.5)]),
    (np.array(2, dtype=np.int64), [("int64", (), 2)]),
    (np.arange(3.0)[::-1], [("float64", (3,), [2.0, 1.0, 0.0])]),
    (np.broadcast_to(np.float16(1), (2,)), [("float16", (2,), [1.0, 1.0])]),
    (np.arange(2, dtype=">i4"), [("int32", (2,), [0, 1])]),
    ((np.bool_(True), [np.zeros(0)]), [("bool", (), True), ("float64", (0,), [])]),
])  # fmt: skip
def test_what_comes_back(offer: Implementations, result: Any, expected: list[Any]) -> None:
    offer(lambda x: result)
    outcome = run()
    assert outcome.status == "ok"
    found = [
        (o.dtype, tuple(o.tensor.shape), o.tensor.tolist())
        for o in outcome.outputs
        if o.tensor is not None
    ]
    assert found == expected


def test_results_that_are_no_arrays(offer: Implementations) -> None:
    offer(lambda x: (True, 3, None))
    assert [o.value for o in run().outputs] == [True, 3, None]


def test_what_is_refused(snapshot: Snapshot, offer: Implementations) -> None:
    def later(x: Any, *more: Any, **named: Any) -> Any:
        raise NotImplementedError("mode='nearest-exact'" if not more else "")

    offer(later)
    backend = Numpy()
    snapshot(backend.unsupported(operator("other"), "float32", "forward"), "1")
    snapshot(backend.unsupported(operator(), "bfloat16", "forward"), "2")
    snapshot(backend.unsupported(operator(), "float32", "backward"), "3")
    assert backend.unsupported(operator(), "float32", "forward") is None
    reason = backend.unsupported(operator(mutates=(0,)), "float32", "forward")
    snapshot(reason, "4")
    for outcome, message in (
        (backend.run(operator("other"), materials()), "no NumPy implementation of other"),
        (run(), "NumPy: mode='nearest-exact'"),
        (run(X, 1), "NumPy: thing with these arguments"),
        (run(TensorRecipe((4,), "bfloat16")), "NumPy has no bfloat16"),
        (run(X, dtype=DType("bfloat16")), "NumPy has no bfloat16"),
        (
            run(X, memory_format=MemoryFormat("channels_last")),
            "torch.channels_last means nothing to NumPy",
        ),
    ):
        assert (outcome.status, outcome.message) == ("unsupported", message)


def test_a_faulty_implementation_is_an_outcome(offer: Implementations) -> None:
    def writes(x: Any) -> Any:
        x *= 2
        return x

    offer(writes)
    assert run().modified == (0,)
    offer(lambda x: 1 / 0)
    assert (run().status, run().exception) == ("raised", "ZeroDivisionError")
    offer(lambda x: np.array(["text"]))
    assert (run().status, run().exception) == ("raised", "TypeError")


def test_listing() -> None:
    row = describe(Numpy())
    assert (row["available"], row["float64"], row["device"]) == (True, True, "cpu")
    assert row["versions"][0] == f"numpy {np.__version__}"
    assert set(row["environment"]) - set(_numerics.variables()) == {
        "device",
        "numpy",
        "blas",
        "processor",
    }


# --- long double


@pytest.mark.skipif(not WIDER, reason="a long double is no wider than float64 here")
def test_wide_is_closer_than_float64(offer: Implementations) -> None:
    offer(lambda x, y, dtype: (x / y, np.argmax(x)), wide=True)
    other = TensorRecipe(
        (4,), "float32", ("uniform", 1.0, 2.0), stop=200, view=(("slice", 0, None, None, 1),)
    )
    case = materials(X, other, dtype=DType("float32"))
    quotient, index = Numpy().wide(operator(), case) or []
    assert (quotient.dtype, index.dtype.kind) == (np.longdouble, "i")
    args = case.build("float64").args
    plain = (args[0] / args[1]).numpy()
    assert np.array_equal(quotient.astype(np.float64), plain)
    assert (quotient != plain).any()


@pytest.mark.skipif(not WIDER, reason="a long double is no wider than float64 here")
def test_wide_agrees_with_mathematics() -> None:
    exp = operator("exp", function=torch.exp)
    if "exp" not in numpy_ops.WIDE:
        pytest.skip("exp is not offered in long double")
    (result,) = (
        Numpy().wide(
            exp, materials(TensorRecipe((1,), "float64", ("uniform", 1.0, 1.0)), main="float64")
        )
        or []
    )
    x = (
        materials(TensorRecipe((1,), "float64", ("uniform", 1.0, 1.0)), main="float64")
        .build()
        .args[0]
        .item()
    )
    terms = [np.longdouble(x) ** k / np.longdouble(math.factorial(k)) for k in range(28)]
    assert abs(result[0] / np.sum(np.array(terms[::-1])) - 1) < 1e-18


@pytest.mark.parametrize(("function", "changes"), [
    pytest.param(lambda x: x.astype(np.float64), {}, id="narrowed on the way"),
    pytest.param(lambda x: 1 / 0, {}, id="raised"),
    pytest.param(lambda x: x.astype(np.complex128), {}, id="narrowed to complex128 on the way"),
    pytest.param(lambda x: "text", {}, id="text"),
    pytest.param(lambda x: x, {"mutates": (0,)}, id="writes to its argument"),
    pytest.param(lambda x: x, {"observe": lambda *args: ()}, id="not unique"),
])  # fmt: skip
def test_wide_is_none_where_it_is_no_better(
    offer: Implementations, function: Any, changes: dict[str, Any]
) -> None:
    offer(function, wide=True)
    assert Numpy().wide(operator(**changes), materials()) is None


def test_wide_is_none_where_it_is_not_offered(
    offer: Implementations, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(lambda x: x, wide=False)
    assert Numpy().wide(operator(), materials()) is None
    offer(lambda x: x, wide=True)
    monkeypatch.setattr(np, "finfo", lambda dtype: type("Info", (), {"nmant": 52}))
    assert Numpy().wide(operator(), materials()) is None


@pytest.mark.skipif(not WIDER, reason="a long double is no wider than float64 here")
def test_wide_with_complex_inputs(offer: Implementations) -> None:
    offer(lambda x: abs(x), wide=True)
    literal = prepare(Case("thing", "complex64", (np_literal(),)))
    (result,) = Numpy().wide(operator(), literal) or []
    assert result.dtype == np.longdouble


def np_literal() -> Any:
    from consistency.generate.materialize import literal

    return literal(torch.ones(2, dtype=torch.complex64))


@pytest.mark.parametrize("exponent", [-120, 0, 120])
def test_deviations_whose_squares_leave_the_format(exponent: int) -> None:
    rows = np.ldexp(np.float32([[1.0, 2.0, 4.0, 8.0], [1.0, 1.0, 1.0, 1.0]]), exponent)
    deviation, center = row_deviation(rows, 1)
    right = rows.astype(np.float64)
    np.testing.assert_allclose(deviation, right.std(-1, ddof=1), rtol=3e-7)
    np.testing.assert_allclose(center, right.mean(-1), rtol=3e-7)


def test_bounds_of_logit_that_cross_are_asked_for_in_torchs_order() -> None:
    x = TensorRecipe((9, 11), "float64", ("uniform", 0.0, 1.0), 900)
    case = Case("logit", "float64", (x,), {"eps": 0.625})
    found, expected = (
        resolve(name).run(operators.get("logit"), prepare(case)).outputs[0].tensor
        for name in ("numpy", "cpu")
    )
    torch.testing.assert_close(found, expected, rtol=1e-15, atol=0.0)
