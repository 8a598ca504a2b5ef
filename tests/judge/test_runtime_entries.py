"""Known divergences of runtimes: the forms of an operator are covered by what they are given, not
by what they write, and nothing beside the defect is."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import pytest

from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.judge import tolerances
from consistency.judge.known.entries import Expectation, Occasion

RUNTIMES = ("openvino", "onnxruntime", "jax")
ENTRIES = tolerances.load().expectations
PLAIN = TensorRecipe((2, 3), "float32")
NAN = TensorRecipe((2, 3), "float32", special=((0, "nan"),))
INFINITE = TensorRecipe((2, 3), "float32", special=((0, "inf"),))
NUMBER = TensorRecipe((), "float32")
MASK = TensorRecipe((2, 3), "bool")
INDEX = TensorRecipe((2, 2), "int64")
LINE = TensorRecipe((64,), "float32")


def entry(
    backend: str, operator: str, args: tuple[Any, ...], verdict: str, rho: float | None = None,
    dtype: str = "float32", **kwargs: Any,
) -> Expectation | None:  # fmt: skip
    case = Case(operator, dtype, args, kwargs)
    return Occasion(case, backend, "forward").known(ENTRIES, verdict, rho)


def test_no_condition_takes_what_is_written_for_the_input() -> None:
    """``arg0`` of a form with ``out`` is the tensor that it writes."""
    written = [name for name, declared in operators.registry().items() if declared.leading]
    mistaken = [
        f"{known.place}: {known} covers {name}"
        for known in ENTRIES
        if known.backend.startswith(RUNTIMES)
        and known.when is not None
        and any(name.startswith("arg") and name[3:].isdecimal() for name in known.when.names)
        for name in written
        if fnmatchcase(name, known.operator)
    ]
    assert not mistaken


@pytest.mark.parametrize(
    ("backend", "operator", "args", "verdict"),
    [
        ("openvino", "exp.out", (NAN,), "special-values"),
        ("openvino", "nn.functional.relu.out", (NAN,), "special-values"),
        ("openvino", "clamp_min.out", (NAN, 0.5), "special-values"),
        ("openvino", "clamp_max.out", (INFINITE, 0.5), "special-values"),
        ("openvino", "logical_not.out", (NAN,), "divergent"),
        ("openvino", "any.out", (NAN,), "divergent"),
        ("openvino", "softmax.out", (NAN, 0), "special-values"),
        ("openvino", "signbit.out", (NUMBER,), "structure"),
        ("onnxruntime", "diagonal_copy.out", (NAN,), "special-values"),
        ("onnxruntime", "amax.out", (NAN,), "special-values"),
        ("onnxruntime", "signbit.out", (NUMBER,), "structure"),
    ],
)  # fmt: skip
def test_forms_with_out(backend: str, operator: str, args: tuple[Any, ...], verdict: str) -> None:
    assert entry(backend, operator, (PLAIN, *args), verdict) is not None
    assert entry(backend, operator, (args[0], PLAIN, *args[1:]), verdict) is None


@pytest.mark.parametrize(
    ("operator", "args", "kwargs", "verdict"),
    [
        ("relu_", (PLAIN,), {}, "special-values"),
        ("relu_", (NAN,), {}, "divergent"),
        ("masked.softmax", (PLAIN, 1), {"mask": MASK}, "special-values"),
        ("masked.normalize", (PLAIN, 2.0, 1), {"mask": MASK}, "special-values"),
        ("masked.logaddexp", (PLAIN, PLAIN), {}, "special-values"),
        ("gather", (PLAIN, 1, TensorRecipe((2, 3), "int64")), {}, "error"),
        ("gather", (PLAIN, 1, INDEX), {}, "divergent"),
        ("stft", (LINE, 16), {"onesided": True}, "error"),
        ("nn.functional.scaled_dot_product_attention", (PLAIN, PLAIN, PLAIN), {}, "divergent"),
        ("nn.functional.embedding_bag", (INDEX, PLAIN), {}, "divergent"),
        ("rnn_relu_cell", (PLAIN,) * 4, {}, "special-values"),
        ("signbit", (PLAIN,), {}, "structure"),
    ],
)  # fmt: skip
def test_what_is_right_beside_them_stays_judged(
    operator: str, args: tuple[Any, ...], kwargs: dict[str, Any], verdict: str
) -> None:
    assert entry("openvino+precision=f32", operator, args, verdict, **kwargs) is None


def test_transforms_by_the_size_that_they_have() -> None:
    """A size that is no power of two: of the input, or given."""
    odd = TensorRecipe((63,), "float32")
    for name, size in (("fft.fft", {"n": 100}), ("fft.fftn", {"s": [100]})):
        assert entry("openvino", name, (odd,), "divergent", 5.0) is not None
        assert entry("openvino", name, (odd,), "divergent", 6000.0) is None
        assert entry("openvino", name, (LINE,), "divergent", 5.0) is None
        assert entry("openvino", name, (LINE,), "divergent", 5.0, **size) is not None
    assert entry("openvino", "fft.fft", (LINE,), "divergent", 5.0, n=64) is None


@pytest.mark.parametrize("backend", ["openvino", "onnxruntime"])
@pytest.mark.parametrize("optimizer", ["optim.Adam", "optim.AdamW"])
def test_optimizers(backend: str, optimizer: str) -> None:
    args = ([PLAIN], [PLAIN], [[PLAIN], [PLAIN]])
    assert entry(backend, optimizer, args, "divergent", 33.0) is not None
    assert entry(backend, optimizer, args, "special-values") is None


@pytest.mark.parametrize("sizes", [(0, 2), (2, 0), (2, 2)])
def test_an_index_without_elements_is_what_is_refused(sizes: tuple[int, ...]) -> None:
    indices = tuple(TensorRecipe((size,), "int64") for size in sizes)
    for name in ("index_put", "index_put_"):
        found = entry("onnxruntime", name, (PLAIN, indices, NUMBER), "error")
        assert (found is not None) == (0 in sizes)


def test_gradients_of_parts_that_overlap_themselves() -> None:
    overlapping = TensorRecipe((9,), "float32", view=(("unfold", 0, 3, 1),))
    for tensor, known in ((overlapping, True), (PLAIN, False)):
        for name, sizes in (("split", [2, 1]), ("chunk", 2)):
            occasion = Occasion(
                Case(name, "float32", (tensor, sizes), {}), "cpu+compile", "backward"
            )
            assert (occasion.known(ENTRIES, "divergent", 5.0) is not None) == known


def test_jax_and_what_is_right_beside_its_entries() -> None:
    square, large = TensorRecipe((3, 3), "float32"), TensorRecipe((17, 17), "float32")
    assert entry("jax", "linalg.det", (large,), "divergent", 1.4) is not None
    assert entry("jax", "linalg.det", (large,), "divergent", 100.0) is None
    assert entry("jax", "linalg.det", (square,), "divergent", 1.4) is None
    image, grid = TensorRecipe((1, 1, 4, 5), "float32"), TensorRecipe((1, 2, 2, 2), "float32")
    for mode, padding, known in (
        ("bicubic", "reflection", True),
        ("bicubic", "border", False),
        ("bilinear", "reflection", False),
    ):
        options = {"mode": mode, "padding_mode": padding}
        found = entry("jax", "nn.functional.grid_sample", (image, grid), "divergent", **options)
        assert (found is not None) == known
    number = TensorRecipe((), "int64")
    assert entry("jax", "index_select", (PLAIN, 0, number), "structure") is not None
    assert entry("jax", "index_select", (PLAIN, 0, INDEX), "structure") is None
    polynomial = "special.chebyshev_polynomial_u"
    assert entry("jax", polynomial, (PLAIN, INFINITE), "timeout") is not None
    assert entry("jax", polynomial, (PLAIN, PLAIN), "timeout") is None
    assert entry("jax", polynomial, (PLAIN, INFINITE), "divergent", 2.0) is None
    assert entry("jax", "log1p", (PLAIN,), "divergent", 1.05) is not None
    assert entry("jax", "log1p", (PLAIN,), "divergent", 2.0) is None


@pytest.mark.parametrize(
    ("query", "keys", "known"), [(1, 2, True), (1, 1, False), (2, 2, False), (2, 1, False)]
)
def test_grouped_queries_of_one_batch_item(query: int, keys: int, known: bool) -> None:
    args = tuple(TensorRecipe((n, 1, 4, 4), "float32") for n in (query, keys, keys))
    found = entry("onnxruntime", "grouped_query_attention", args, "error")
    assert (found is not None) == known


def test_what_torch_s_kernels_get_wrong_excuses_no_runtime() -> None:
    swept = TensorRecipe((65536,), "float32", ("every", 0, 65537))
    identity = {"device": "cpu", "torch": "2.13.0"}
    for name in ("sinh", "sinc", "special.i1", "nn.functional.hardswish"):
        case = Case(name, "float32", (swept,))
        for verdict in ("divergent", "special-values"):
            mine = Occasion(case, "mine", "forward", identity)
            runtime = Occasion(case, "other", "forward", identity | {"runtime": "Other"})
            assert runtime.known(ENTRIES, verdict, None) is None
            if mine.known(ENTRIES, verdict, None) is not None:
                break
        else:
            pytest.fail(f"{name} is not known of a backend that computes with torch")


def whole_numbers(dtype: str, end: int) -> TensorRecipe:
    return TensorRecipe((4, 4), dtype, ("integers", -end, end))


@pytest.mark.parametrize(
    ("operator", "dtype", "known", "judged"),
    [
        ("clone", "int64", 2**31, 2**31 - 1),  # computed in int32
        ("add", "int64", 2**40, 9),
        ("relu_", "int32", 2**24 + 1, 2**24),  # computed in float32
        ("eq", "int32", 2**26, 2**24),
    ],
)
def test_whole_numbers_on_openvino_are_excused_beyond_what_it_holds(
    operator: str, dtype: str, known: int, judged: int
) -> None:
    for end, is_known in ((known, True), (judged, False)):
        for args in ((whole_numbers(dtype, end),) * 2, (whole_numbers(dtype, 1),) * 2):
            found = entry("openvino+precision=f32", operator, args, "divergent", 1e12, dtype=dtype)
            assert (found is not None) == (is_known and args[0].values[2] == end)
    beyond = (whole_numbers(dtype, known),) * 2
    assert entry("onnxruntime", operator, beyond, "divergent", 1e12, dtype=dtype) is None
    assert entry("openvino", operator, beyond, "error", dtype=dtype) is None


def test_a_result_in_bfloat16_on_openvino_may_err_by_one_ulp_and_no_more() -> None:
    args = (TensorRecipe((4, 4), "bfloat16"),) * 2
    for name in ("mul", "matmul", "nn.functional.conv1d"):
        assert entry("openvino", name, args, "divergent", 1.99, dtype="bfloat16") is not None
        assert entry("openvino", name, args, "divergent", 2.1, dtype="bfloat16") is None
        assert entry("openvino", name, args, "special-values", dtype="bfloat16") is None
        assert entry("openvino", name, args, "divergent", 1.99) is None
