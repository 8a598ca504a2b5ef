"""Why torch-directml raises, dies or returns another shape: read off the messages, shapes and
arguments of the recorded calls. The conditions of the large groups were counted over every recorded
call of the operator (they hold where the call failed so, and not where it did not); those of one to
three results were read off the message and the case alone.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass

N = "nn.functional."
_EMPTY = re.compile(r"[\[ ]0[,\]]")  # a dimension of 0 in a shape such as "[2, 0] strides [1, 1]"


@dataclass(frozen=True)
class RecordedError:
    """``message``: a pattern in what a result says; ``dtype``: empty for all."""

    message: str
    operators: str
    does: str
    dtype: str = ""
    direction: str = ""
    empty: bool = False  # only where a tensor has no elements

    def fits(
        self, operator: str, direction: str, dtype: str, said: str, shapes: tuple[str, ...]
    ) -> bool:
        return (
            any(fnmatch.fnmatchcase(operator, name) for name in self.operators.split())
            and self.direction in ("", direction)
            and self.dtype in ("", dtype)
            and re.search(self.message, said) is not None
            and (not self.empty or any(_EMPTY.search(s.split(" strides")[0]) for s in shapes))
        )


_SCATTER = "scatter_add* scatter_reduce gather* take_along_dim*"
_INVALID = "Unknown error -2147024809"
ERRORS: tuple[RecordedError, ...] = (
    RecordedError("not the tensor given as out", "*.out",
                  "`out` keeps its shape, or is not used, and another tensor is returned"),
    RecordedError(r"size of tensor a \(0\)|has shape \[0\] instead|" + _INVALID, "*.out",
                  "`out` without elements is not resized", empty=True),
    RecordedError(r"has shape \[0\] instead", "*median*",
                  "the fallback's `out` is not resized"),
    RecordedError("same size in dimensions other than", "cat.out",
                  "a negative `dim` is not counted from the end"),
    RecordedError(_INVALID, "vstack column_stack cat.out",
                  "one of the parts has no elements", empty=True),
    RecordedError(_INVALID, _SCATTER, "an index has more places than the tensor it points into"),
    RecordedError("partially modified dimensions", "*",
                  "an index leaves out places of another dimension than `dim`; gradients of `max`, "
                  "`min`, `topk`, quantiles, and `one_hot`, are made of such"),
    RecordedError("input must be", f"{N}conv3d {N}conv_transpose3d",
                  "3-D convolutions are taken for 2-D ones"),
    RecordedError(f"{_INVALID}|ensure_in_bounds", f"{N}conv*", "integers have no kernel", "int64"),
    RecordedError(r"ensure_in_bounds: sizes \[1, \d+, 1, 1\]", f"{N}conv*",
                  "a bias that is expanded is read beyond its memory"),
    RecordedError(_INVALID, f"{N}conv_transpose*",
                  "`groups` other than 1; once `dilation` 2 in a gradient"),
    RecordedError("ensure_in_bounds", f"{N}conv* {N}prelu masked_scatter",
                  "strides of one tensor are used for another's memory, which is shorter"),
    RecordedError("ensure_in_bounds", f"{N}local_response_norm",
                  "a slice is read beyond its memory", direction="backward"),
    RecordedError("ensure_in_bounds", "as_strided*",
                  "windows that overlap: the table of indices has no memory", direction="backward"),
    RecordedError(_INVALID, f"{N}avg_pool3d {N}lp_pool3d", "input without a batch"),
    RecordedError("Dimension out of range", f"{N}max_pool*", "input without a batch"),
    RecordedError("Divisor override", f"{N}avg_pool2d*", "`divisor_override` is not offered"),
    RecordedError(_INVALID, "isnan* isinf*", "integers have no kernel", "int64"),
    RecordedError(_INVALID, f"{N}threshold", "integers have no kernel", "int64"),
    RecordedError(_INVALID, f"{N}softplus",
                  "`beta` below 1: DirectML's steepness cannot be less than 1"),
    RecordedError(_INVALID, "quantile", "the gather of sorted numbers is refused"),
    RecordedError(_INVALID, "max sort msort cummax cummin topk.method",
                  "the scatter of the gradient is refused, of one number in four of seven",
                  direction="backward"),
    RecordedError(_INVALID, "norm.out", "an `out` that is not contiguous is refused"),
    RecordedError("Unknown error -2005270523", f"{N}layer_norm",
                  "the device is removed (0x887A0005)"),
    RecordedError("rank is not equal to normalized_shape", f"{N}layer_norm",
                  "no weight or no bias, and more than one normalized dimension"),
    RecordedError("derivative for", f"aminmax {N}channel_shuffle", "there is no derivative"),
    RecordedError("CreateOperator", "tanh* nn.functional.tanhshrink",
                  "the derivative of tanh is not offered", "float16", "backward"),
    RecordedError("multi-target not supported", f"{N}nll_loss {N}cross_entropy",
                  "a sample without a batch"),
    RecordedError("has_storage", "*_scatter", "the copy has no storage"),
    RecordedError("dimesion of repeats", "repeat* tile", "more than four repeats"),
    RecordedError("memory_format", "clone", "`memory_format` other than contiguous"),
    RecordedError("size of tensor a", "combinations",
                  "the mask that chooses the pairs has no elements"),
    RecordedError("size of tensor a|invalid gradient|has shape", "cdist",
                  "rows are not crossed: x − y is broadcast"),
    RecordedError("invalid gradient", f"{N}batch_norm",
                  "the gradient of one channel's weight loses its dimension"),
    RecordedError("size of tensor a", f"{N}prelu",
                  "the weight is lined up with the last dimension", direction="backward"),
    RecordedError("has shape", f"{N}max_pool2d", "`ceil_mode` is ignored"),
    RecordedError("has shape", f"{N}pad", "padding of width and height are exchanged (`reflect`)"),
    RecordedError("SIGSEGV", "*", "death by a tensor without elements", empty=True),
    RecordedError("SIGSEGV", "dsplit hsplit vsplit", "death by a later part without elements"),
    RecordedError("SIGSEGV", "cumsum* logcumsumexp", "death by a negative `dim`, in the gradient",
                  direction="backward"),
    RecordedError("SIGSEGV", "*median", "death by `dim`, unless one number results"),
    RecordedError("SIGSEGV", "linalg.lstsq", "death by each of the calls"),
    RecordedError("ComplexFloat", "fft.*", "complex numbers inside: abort"),
    RecordedError("is_dim_broadcast", "kron*", "a dimension that is broadcast inside: abort"),
    RecordedError("broadcast_sizes", "unique*", "without `dim`: abort"),
    RecordedError("DIMENSION_COUNT_MAX", "expand*", "more than eight dimensions: abort"),
)  # fmt: skip


def explained(operator: str, direction: str, dtype: str, said: str, shapes: tuple[str, ...]) -> str:
    """What the kernel does instead; empty if nothing is known."""
    return next(
        (row.does for row in ERRORS if row.fits(operator, direction, dtype, said, shapes)), ""
    )
