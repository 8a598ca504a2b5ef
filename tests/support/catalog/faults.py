"""The faulty backends: planters × operators. Which operator, size and place was chosen for variety,
not for what is caught."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from . import formulas, formulas_losses, formulas_nn, formulas_reduced, memory, outcomes, precision
from .model import Fault, Maker, constantly, formula
from .ties import last_among_ties

N = "nn.functional."
BACKWARD = ("backward",)
Rows = Iterator[Fault]


def over(names: str, what: str, make: Maker, cause: str | None = None, **more: Any) -> Rows:
    """One fault for each of several operators, separated by blanks; a leading dot stands for
    ``nn.functional``."""
    for name in names.split():
        yield Fault(what, N + name[1:] if name[0] == "." else name, make, cause=cause, **more)


def _precision() -> Rows:
    of = precision.rounding_inputs
    yield from over(("matmul mm bmm mv addmm einsum .linear .conv1d .conv2d .conv_transpose2d "
    ".scaled_dot_product_attention"),
                    "TF32 inputs", partial(of, 11), "tf32-inputs")  # fmt: skip
    rows = [
        ("matmul baddbmm .bilinear .conv3d", "bfloat16 inputs", partial(of, 8), "bfloat16-inputs"),
        ("matmul .linear", "TF32 in the first factor only", partial(of, 11, (0,)), "tf32-inputs"),
        ("mm .conv2d", "bfloat16 weights only", partial(of, 8, (1,)), "bfloat16-inputs"),
        ("bmm dot tensordot", "float16 inputs", precision.in_float16_range,
            "float16-inputs|tf32-inputs"),
        ("matmul mm bmm", "bfloat16 in three products", constantly(precision.three_products),
            "bfloat16x3-inputs"),
    ]  # fmt: skip
    for row in rows:
        yield from over(*row)
    yield from over(
        "matmul .conv2d", "TF32 inputs", partial(of, 11), "tf32-inputs", directions=BACKWARD
    )
    yield from over(
        "cumsum prod .layer_norm .interpolate sum .avg_pool2d",
        "bfloat16 inputs",
        partial(of, 8),
        "bfloat16-inputs",
    )
    for dtype, name in ((torch.float16, "float16"), (torch.bfloat16, "bfloat16")):
        make = partial(precision.accumulating, precision.nearest(dtype), 16)
        yield from over(
            "matmul .linear sum mean .conv2d", f"{name} accumulator", make, f"{name}-accumulator"
        )
        yield from over(
            "matmul sum", f"{name} accumulator", make, f"{name}-accumulator", dtype=name
        )
    for block in (1, 4, 32):
        make = partial(precision.accumulating, precision.toward_zero, block)
        yield from over(
            "matmul mm .linear" if block == 1 else "bmm sum .conv2d",
            f"truncating every {block}",
            make,
            "truncating-accumulator",
        )
    names = (
        "matmul exp sum div sqrt sin erf pow .conv2d .layer_norm softmax cumsum .interpolate "
        "lgamma linalg.inv fft.fft var .gelu"
    )
    yield from over(
        names,
        "computed in float32",
        partial(precision.computed_in, torch.float32),
        "float32-instead-of-float64",
        dtype="float64",
    )
    yield from over(
        "mul tanh .linear",
        "computed in float32",
        partial(precision.computed_in, torch.float32),
        "float32-instead-of-float64",
        dtype="float64",
        directions=BACKWARD,
    )
    yield from over(
        "add .softplus",
        "computed in bfloat16",
        partial(precision.computed_in, torch.bfloat16),
        None,
        dtype="float16",
    )
    yield from over(
        "exp .silu log", "computed in bfloat16", partial(precision.computed_in, torch.bfloat16)
    )


def _memory() -> Rows:
    yield from over(
        "add exp matmul softmax .conv2d gather index_select",
        "offset ignored",
        memory.offset_ignored,
        "offset-ignored",
    )
    yield from over(
        "mul where .layer_norm cat",
        "offset ignored",
        memory.offset_ignored,
        "offset-ignored",
        dtype="float16",
    )
    rows = [
        ("bmm .linear .conv2d sub", "second offset ignored", partial(memory.offset_ignored, (1,)),
            "offset-ignored"),
        ("exp mul matmul sum .linear where stack", "strides ignored", memory.strides_ignored,
            "strides-ignored"),
        ("addcdiv mm .conv1d", "second strides ignored", partial(memory.strides_ignored, (1,)),
            "strides-ignored"),
        ("scatter index_add gather", "strides of the index ignored",
            partial(memory.strides_ignored, (2,)), "strides-ignored"),
        ("addcmul scatter index_add", "strides of the last ignored",
            partial(memory.strides_ignored, (3, -1)), "strides-ignored"),
        ("where masked_fill", "strides of the mask ignored", partial(memory.strides_ignored, (0,)),
            "strides-ignored"),
        (".layer_norm .softplus .prelu .selu cumsum amax", "permuted read as contiguous",
            memory.permuted_as_contiguous, "strides-ignored"),
        ("relu_ add_ mul_ masked_fill_ clamp_", "write to a view lost",
            constantly(memory.write_lost)),
        ("add_ copy_ fill_ index_add_", "strided write lost",
            constantly(memory.strided_write_lost)),
        ("zero_ copy_", "write beside the view", constantly(memory.write_beside)),
        ("abs log sort .avg_pool2d", "last stride taken for 1", memory.last_stride_assumed,
            "strides-ignored"),
        ("add mul maximum lerp", "0-d offset ignored", constantly(memory.scalar_offset_ignored),
            "offset-ignored"),
    ]  # fmt: skip
    for row in rows:
        yield from over(*row)
    yield from over(
        "tanh .max_pool2d mean",
        "strided input refused",
        constantly(memory.strided_refused),
        raises=True,
    )
    yield from over(
        "matmul exp .layer_norm",
        "strides ignored",
        memory.strides_ignored,
        "strides-ignored",
        directions=BACKWARD,
    )
    yield from over(
        "mul .conv2d",
        "offset ignored",
        memory.offset_ignored,
        "offset-ignored",
        directions=BACKWARD,
    )
    yield from over(
        "sin add matmul .max_pool2d", "stale buffer", memory.stale, "stale|nondeterministic"
    )
    yield from over(
        "sum mean nansum trace",
        "every fifth call is half zero",
        partial(memory.once_in, 5),
        "nondeterministic",
    )
    yield from over(
        "sum matmul",
        "every thousandth call is half zero",
        partial(memory.once_in, 1000),
        "nondeterministic",
        decidable=False,
        why="happens once in a thousand calls",
    )
    yield from over(
        "matmul sum",
        "float64 raises",
        constantly(memory.float64_refused),
        dtype="float64",
        raises=True,
    )
    yield from over("exp", "the device is removed", partial(memory.removed_after, 4), raises=True)
    yield from over(
        "neg sum sort .embedding",
        "input modified",
        constantly(memory.input_modified),
        "input-modified",
    )
    yield from over(
        "add mul sum matmul cumsum clone cat where abs sort",
        "int64 in 32 bits",
        constantly(memory.integers_cut),
        "int64-truncated",
        dtype="int64",
    )
    yield from over(
        "add sum maximum gather",
        "int64 through float32",
        partial(memory.integers_through, torch.float32),
        None,
        dtype="int64",
    )
    yield from over(
        "sub amax",
        "int64 through float64",
        partial(memory.integers_through, torch.float64),
        None,
        dtype="int64",
    )
    yield from over(
        "gather index_select .embedding take", "index of 3 bits", partial(memory.index_cut, 3)
    )
    yield from over("eye roll nonzero", "empty", constantly(memory.empty))
    yield from over(
        "eye .interpolate cumsum",
        "falls back and returns nothing",
        constantly(memory.fell_back_empty),
    )


def _after(
    names: str,
    what: str,
    change: Callable[..., Any],
    cause: str | None = None,
    which: int = 0,
    **more: Any,
) -> Rows:
    return over(names, what, constantly(outcomes.after(change, which)), cause, **more)


def _outcomes() -> Rows:
    yield from _after(
        "matmul softmax .avg_pool2d log", "times 1.001", outcomes.scaled(1.001), "scaled"
    )
    yield from _after("mul exp", "times 1.00001", outcomes.scaled(1.00001), "scaled")
    yield from _after(
        "mean .layer_norm", "times 1.02", outcomes.scaled(1.02), "scaled", dtype="float16"
    )
    yield from _after("sum var", "times 1.05", outcomes.scaled(1.05), "scaled", dtype="bfloat16")
    yield from _after("cos .gelu", "plus 0.0001", outcomes.added(1e-4), "offset-added")
    yield from _after(
        "sqrt .conv2d", "plus 1", outcomes.added(1.0), "offset-added", dtype="float64"
    )
    yield from _after("cumprod .linear", "zero", outcomes.zeroed, "zero")
    for place, names in (
        (0.0, "exp .conv2d"),
        (0.5, "matmul .layer_norm softmax cumsum"),
        (1.0, "add bmm .interpolate var"),
    ):
        yield from _after(
            names, f"one element times 1.001 at {place:g}", outcomes.element(place, 1.001)
        )
    yield from _after(
        "exp tan .gelu mul",
        "tail of 8 off by 0.0001",
        outcomes.tail(8, 1.0001),
        "depends-on-position",
    )
    yield from _after(
        "sigmoid .softplus",
        "body of 16 with 14 bits",
        outcomes.body(16, 14),
        "depends-on-position|depends-on-batch",
    )
    yield from _after(
        "sub log1p relu_", "tail of 4 not written", outcomes.tail_untouched(4), "terms-dropped"
    )
    yield from _after(
        "matmul .linear",
        "second tile of 8 with 12 bits",
        outcomes.tile(8, 12),
        "depends-on-position",
    )
    yield from _after(
        "mm .conv2d", "tail of 8 off by 0.0001", outcomes.tail(8, 1.0001), "depends-on-position"
    )
    yield from _after("gather .unfold diagonal", "shifted by one", outcomes.rolled, "shifted")
    yield from _after("stack", "shifted by one", outcomes.rolled, "shifted", dtype="int64")
    yield from _after("cumsum .conv1d", "flipped", outcomes.flipped, "flipped")
    yield from _after("matmul linalg.solve clone", "transposed", outcomes.transposed, "transposed")
    yield from _after("nonzero unique masked_select", "one short", outcomes.truncated)
    yield from _after(
        "sqrt add maximum softmax .max_pool2d", "NaN dropped", outcomes.nan_dropped, "nan-dropped"
    )
    yield from _after("exp", "overflow from 1e30", outcomes.overflowing(1e30), "early-overflow")
    yield from _after(
        "mul square sum",
        "overflow from 2^14",
        outcomes.overflowing(2.0**14),
        "early-overflow",
        dtype="float16",
    )
    yield from _after(
        "cumprod .softplus", "overflow from 80", outcomes.overflowing(80.0), "early-overflow"
    )
    yield from _after(
        "exp reciprocal div", "saturated at 1e30", outcomes.saturated(1e30), "saturated"
    )
    yield from over(
        "abs mul neg clone div",
        "subnormals flushed",
        constantly(outcomes.flushing),
        "flushed-subnormals",
    )
    yield from over(
        "mul",
        "subnormals flushed",
        constantly(outcomes.flushing),
        "flushed-subnormals",
        dtype="float64",
    )
    yield from over(
        "neg reciprocal",
        "subnormals flushed",
        constantly(outcomes.flushing),
        "flushed-subnormals",
        dtype="float16",
    )
    yield from _after("neg trunc", "negative zero lost", outcomes.sign_of_zero_lost)
    yield from _after("all any isclose", "constantly true", outcomes.true)
    yield from _after("all any", "constantly true", outcomes.true, dtype="bool")
    yield from _after(
        "bmm .batch_norm .linear sigmoid",
        "wrong from batches of 3",
        outcomes.large_batch(outcomes.scaled(1.001)),
        "depends-on-batch",
    )
    yield from _after(
        ".conv2d",
        "shifted from batches of 3",
        outcomes.large_batch(outcomes.rolled),
        "depends-on-batch",
    )
    yield from over("exp", "wrong shape", constantly(outcomes.with_wrong_shape))
    yield from over("argmax", "wrong dtype", constantly(outcomes.with_wrong_dtype))
    yield from _after("sort max topk", "index off by one", outcomes.added(1), None, 1)
    for name in ("exp", "matmul", "softmax"):
        yield from _after(
            name,
            "times 1 + 1e-8",
            outcomes.scaled(1.0 + 1e-8),
            decidable=False,
            why="less than half an ulp",
        )
    yield from _after(
        "exp .gelu",
        "times 1 + 2^-23",
        outcomes.scaled(1.0 + 2.0**-23),
        decidable=False,
        why="an ulp, as sound implementations differ",
    )
    yield from _after("matmul sum", "one element 4 ulp off", outcomes.element(0.5, 1.0 + 2.0**-22))


def _gradients() -> Rows:
    def wrong(
        names: str,
        what: str,
        change: Callable[..., Any],
        cause: str | None,
        *args: Any,
        **more: Any,
    ) -> Rows:
        return over(
            names,
            f"gradient {what}",
            constantly(outcomes.gradient(change, *args)),
            cause,
            directions=BACKWARD,
            **more,
        )

    yield from wrong("exp .gelu .batch_norm sum gather", "zero", outcomes.zeroed, "zero")
    yield from wrong("matmul .conv2d .linear", "zero in the second", outcomes.zeroed, "zero", (1,))
    yield from wrong(".conv1d mean prod", "doubled", outcomes.scaled(2.0), "scaled")
    yield from wrong("softmax .silu .interpolate", "times 1.001", outcomes.scaled(1.001), "scaled")
    yield from wrong("sub atan2", "negated", outcomes.negated, "negated", (1,))
    yield from wrong(".avg_pool2d .max_pool2d cumsum pow", "shifted", outcomes.rolled, "shifted")
    yield from wrong(
        ".conv2d", "of the weights shifted", outcomes.rolled_along(-1), "shifted", (1,)
    )
    yield from wrong("matmul bmm", "transposed", outcomes.transposed, "transposed")
    yield from wrong(
        ".layer_norm sqrt", "one element times 1.001", outcomes.element(0.5, 1.001), None
    )
    yield from wrong(
        "mul tanh", "wrong in the tail of 8", outcomes.tail(8, 1.001), "depends-on-position"
    )
    yield from wrong(
        "var .linear",
        "rounded to bfloat16",
        lambda g: precision.to_bits(g, 8),
        "bfloat16-accumulator",
    )
    yield from wrong("logsumexp .cross_entropy", "plus 0.001", outcomes.added(1e-3), "offset-added")
    yield from wrong("erf .hardtanh", "flipped", outcomes.flipped, "flipped")
    yield from wrong("mul .linear", "times 1.02", outcomes.scaled(1.02), "scaled", dtype="float16")
    yield from wrong(
        "cos .mse_loss",
        "computed in float32",
        lambda g: g.float().double(),
        "float32-instead-of-float64",
        dtype="float64",
    )
    yield from over(
        "matmul .prelu .layer_norm addcmul",
        "gradient None",
        constantly(outcomes.gradient_missing()),
        directions=BACKWARD,
    )
    yield from over(
        ".batch_norm .linear mul",
        "gradient None in one",
        constantly(outcomes.gradient_missing((1, 3))),
        directions=BACKWARD,
    )
    yield from over(
        ".batch_norm mul .bilinear",
        "gradient of wrong shape",
        constantly(outcomes.gradient_of_wrong_shape(0)),
        directions=BACKWARD,
        raises=True,
    )
    yield from over(
        ".conv2d fft.ifft",
        "gradient on top of the last",
        outcomes.gradient_accumulated,
        "stale",
        directions=BACKWARD,
    )
    unreduced = outcomes.gradient_where(
        lambda call: call.kwargs.get("reduction") == "none", outcomes.zeroed
    )
    yield from over(
        ".cross_entropy .mse_loss",
        "gradient zero without reduction",
        constantly(unreduced),
        "zero",
        directions=BACKWARD,
    )
    padded = outcomes.gradient_where(
        lambda call: (
            call.args[0].ndim == 4
            and not call.args[0].is_contiguous()
            and bool(call.kwargs.get("padding"))
        ),
        outcomes.rolled,
    )
    yield from over(
        ".avg_pool2d",
        "gradient shifted with strides and padding",
        constantly(padded),
        "shifted",
        directions=BACKWARD,
    )


def _formulas() -> Rows:
    wrong = (
        *formulas.ELEMENTWISE, *formulas_reduced.REDUCED, *formulas_reduced.MOVED,
        *formulas_nn.LAYERS, *formulas_losses.LOSSES,
        *formulas_losses.LINEAR,
    )  # fmt: skip
    for operator, what, function, cause in wrong:
        yield Fault(what, operator, formula(function), cause=cause)


def _tails() -> Rows:
    for multiple, names in (
        (8, "sum matmul amax .linear"),
        (4, "mean prod dot"),
        (16, "bmm logsumexp"),
    ):
        yield from over(
            names,
            f"terms beyond a multiple of {multiple} dropped",
            constantly(precision.tail_dropped(multiple)),
            "terms-dropped",
        )


def _ties() -> Rows:
    make, cause = constantly(last_among_ties), "another-of-equals"
    yield from over("argmax argmin max min", "last among ties", make, cause)
    yield from over("argmax max", "last among ties", make, cause, dtype="int64")


FAULTS = (
    *_precision(), *_tails(), *_memory(), *_outcomes(), *_gradients(), *_formulas(), *_ties(),
)  # fmt: skip
