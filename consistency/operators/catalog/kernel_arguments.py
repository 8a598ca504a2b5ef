"""Whether the arguments of a kernel belong together, for kernels that do not check it.

torch calls these only from functions that made the arguments fit. With others they read or write
beyond a tensor: statistics of another number of channels, a gradient of another shape than the
output, a position beyond the end. The conditions were found with inputs that end at an unreadable
page. Each takes the arguments by the schema's names and raises :class:`Unfit`, or an exception of
torch's, which means the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

Arguments = Mapping[str, Any]


class Unfit(Exception):  # noqa: N818 - says what is so
    """The arguments do not belong together."""


def problem(base: str, arguments: Arguments) -> str:
    """Why ``aten::base`` may not be called with these arguments; empty if it may."""
    check = CHECKS.get(base)
    if check is None:
        return ""
    try:
        check(arguments)
    except Unfit as unfit:
        return str(unfit)
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:120]}"
    return ""


def is_checked(base: str) -> bool:
    """Whether the arguments of ``aten::base`` are checked here."""
    return base in CHECKS


def _fit(condition: bool, what: str) -> None:
    if not condition:
        raise Unfit(what)


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(tensor.shape) if isinstance(tensor, torch.Tensor) else ()


def _same_shape(*names: str) -> Callable[[Arguments], None]:
    def check(a: Arguments) -> None:
        first, *others = (_shape(a[name]) for name in names)
        _fit(all(other == first for other in others), f"{' and '.join(names)} differ in shape")

    return check


def _within(positions: torch.Tensor, size: int, what: str) -> None:
    """Every position lies in 0 … size - 1."""
    inside = positions.numel() == 0 or (
        int(positions.min().item()) >= 0 and int(positions.max().item()) < size
    )
    _fit(inside, f"{what} lie outside of 0 … {size - 1}")


def _meta(value: Any) -> Any:
    return value.to("meta") if isinstance(value, torch.Tensor) else value


def _gradient_of(forward: str, gradient: str, *names: str) -> Callable[[Arguments], None]:
    """The gradient has the shape of what ``forward`` returns for these arguments."""

    def check(a: Arguments) -> None:
        _fit(all(size > 0 for size in _shape(a[names[0]])), f"{names[0]} has no elements")
        result = getattr(torch.ops.aten, forward)(*(_meta(a[name]) for name in names))
        expected = _shape(result[0] if isinstance(result, tuple) else result)
        _fit(_shape(a[gradient]) == expected, f"{gradient} is not of shape {list(expected)}")

    return check


def _pool_with_positions(forward: str, rank: int) -> Callable[[Arguments], None]:
    names = ("self", "kernel_size", "stride", "padding", "dilation", "ceil_mode")
    gradient = _gradient_of(forward, "grad_output", *names)

    def check(a: Arguments) -> None:
        gradient(a)
        _same_shape("grad_output", "indices")(a)
        _within(a["indices"], math.prod(_shape(a["self"])[-rank:]), "indices")

    return check


def _adaptive_pool(rank: int, positions: bool) -> Callable[[Arguments], None]:
    def check(a: Arguments) -> None:
        gradient, given = _shape(a["grad_output"]), _shape(a["self"])
        _fit(len(given) in (rank + 1, rank + 2), f"self has {len(given)} dimensions")
        fits = len(gradient) == len(given) and gradient[:-rank] == given[:-rank]
        _fit(fits and min(*gradient, *given) > 0, "grad_output and self do not fit")
        if positions:
            _same_shape("grad_output", "indices")(a)
            _within(a["indices"], math.prod(given[-rank:]), "indices")

    return check


def _channels(*names: str, gradient: str = "") -> Callable[[Arguments], None]:
    """Statistics and weights have one element for each channel of the input, or are left out."""

    def check(a: Arguments) -> None:
        shape = _shape(a["input"])
        _fit(len(shape) >= 2 and min(shape) > 0, f"input is of shape {list(shape)}")
        for name in names:
            fits = a.get(name) is None or _shape(a[name]) in ((shape[1],), (0,))
            _fit(fits, f"{name} is not of {shape[1]} channels")
        dtypes = {a[name].dtype for name in names if isinstance(a.get(name), torch.Tensor)}
        _fit(len(dtypes) <= 1 and all(d.is_floating_point for d in dtypes), "dtypes differ")
        if gradient:
            _fit(_shape(a[gradient]) == shape, f"{gradient} and input differ in shape")
            _fit(a[gradient].dtype == a["input"].dtype, f"{gradient} has another dtype than input")

    return check


def _trained(check: Callable[[Arguments], None], *saved: str) -> Callable[[Arguments], None]:
    """With the statistics that the direction of the call needs."""

    def whole(a: Arguments) -> None:
        check(a)
        channels = _shape(a["input"])[1]
        needed = saved if a["train"] else ("running_mean", "running_var")
        _fit(all(_shape(a[name]) == (channels,) for name in needed), "statistics are missing")

    return whole


def _layer_norm_backward(a: Arguments) -> None:
    given, normalized = _shape(a["input"]), tuple(a["normalized_shape"])
    leading = len(given) - len(normalized)
    _same_shape("grad_out", "input")(a)
    _fit(leading >= 0 and given[leading:] == normalized, "normalized_shape does not fit input")
    rows = math.prod(given[:leading])
    for name in ("mean", "rstd"):
        _fit(a[name].numel() == rows, f"{name} is not of {rows} rows")
    for name in ("weight", "bias"):
        _fit(a.get(name) is None or _shape(a[name]) == normalized, f"{name} does not fit")
    floating = [t for t in a.values() if isinstance(t, torch.Tensor)]
    _fit(all(t.dtype.is_floating_point for t in floating), "not all tensors are floating")
    _fit(a["grad_out"].dtype == a["input"].dtype, "grad_out has another dtype than input")


def _group_norm_backward(a: Arguments) -> None:
    _same_shape("grad_out", "input")(a)
    n, c, groups = int(a["N"]), int(a["C"]), int(a["group"])
    _fit(n >= 0 and c > 0 and groups > 0 and c % groups == 0, "group does not divide C")
    _fit(a["input"].numel() == n * c * int(a["HxW"]), "N, C and HxW do not fit input")
    for name in ("mean", "rstd"):
        _fit(a[name].numel() == n * groups, f"{name} is not of N x group elements")
    _fit(a.get("weight") is None or a["weight"].numel() == c, "weight is not of C channels")


def _classes(a: Arguments) -> None:
    """Target classes exist, and the gradient of each has its place."""
    given, target = _shape(a["self"]), a["target"]
    _fit(1 <= len(given) <= 4 and min(given, default=0) > 0, "self is empty")
    axis = 0 if len(given) == 1 else 1
    used = target[target != int(a["ignore_index"])]
    _within(used, given[axis], "target classes")
    rest = given[:axis] + given[axis + 1 :]
    _fit(_shape(target) in (rest, (1,) if axis == 0 else rest), "target does not fit self")
    weight = a.get("weight")
    _fit(weight is None or _shape(weight) == (given[axis],), "weight is not one of each class")
    expected = _shape(target) if int(a["reduction"]) == 0 else ()
    _fit(_shape(a["grad_output"]) == expected, f"grad_output is not of shape {list(expected)}")
    _fit(a["total_weight"].numel() == 1, "total_weight is no number")
    floating = {t.dtype for t in (a["self"], a["grad_output"], a["total_weight"])}
    _fit(len(floating) == 1, "dtypes differ")


def _embedding_dense_backward(a: Arguments) -> None:
    count, shape = int(a["num_weights"]), _shape(a["grad_output"])
    _fit(count > 0 and shape[:-1] == _shape(a["indices"]) and bool(shape), "shapes do not fit")
    _fit(a["grad_output"].dtype.is_floating_point, "grad_output is not floating")
    _within(a["indices"], count, "indices")


def _embedding_bag(a: Arguments) -> None:
    """Indices are rows, and bags begin in order, the first at 0."""
    indices, offsets = a["indices"], a["offsets"]
    _fit(len(_shape(a["weight"])) == 2 and indices.dim() == offsets.dim() == 1, "shapes do not fit")
    _within(indices, _shape(a["weight"])[0], "indices")
    _within(offsets, indices.numel() + 1, "offsets")
    ordered = bool((offsets.diff() >= 0).all()) and (offsets[:1] == 0).all()
    _fit(bool(ordered), "offsets do not begin at 0 and ascend")
    weights = a.get("per_sample_weights")
    _fit(weights is None or _shape(weights) == _shape(indices), "per_sample_weights do not fit")


def _transformed(a: Arguments) -> None:
    """Dimensions exist, each once."""
    dims, rank = [int(d) for d in a["dim"]], len(_shape(a["self"]))
    _fit(all(0 <= d < rank for d in dims) and len(set(dims)) == len(dims), "dim does not fit self")


def _transformed_to_real(a: Arguments) -> None:
    _transformed(a)
    last = _shape(a["self"])[int(a["dim"][-1])] if a["dim"] else 0
    fits = last == int(a["last_dim_size"]) // 2 + 1
    _fit(fits, "last_dim_size does not fit the transformed dimension")


def _grid_backward(forward: str) -> Callable[[Arguments], None]:
    names = ("input", "grid", "interpolation_mode", "padding_mode", "align_corners")
    return _gradient_of(forward, "grad_output", *names)


def _scaled(a: Arguments) -> None:
    """Scales are left out, or those of the sizes."""
    size, given = [int(n) for n in a["output_size"]], _shape(a.get("self", a.get("input")))
    scales = [a.get("scales_h"), a.get("scales_w")]
    _fit(len(size) == 2 and len(given) == 4, "output_size does not fit self")
    for scale, before, after in zip(scales, given[2:], size, strict=True):
        fits = scale is None or abs(math.floor(before * float(scale)) - after) <= 1
        _fit(fits, "the scales are not those of output_size")


def _pivots(a: Arguments, data: str, pivots: str) -> None:
    """There is one pivot for each column that was eliminated, a row, counted from 1."""
    *batch, rows, columns = _shape(a[data])
    _fit(_shape(a[pivots]) == (*batch, min(rows, columns)), f"{pivots} do not fit {data}")
    _within(a[pivots].abs() - 1, rows, pivots)


_NORM = ("weight", "bias", "running_mean", "running_var")
_SAVED = ("save_mean", "save_invstd")
_BACKWARD = _trained(
    _channels("weight", "running_mean", "running_var", *_SAVED, gradient="grad_out"), *_SAVED
)
_AVERAGE = (
    "self", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad",
    "divisor_override",
)  # fmt: skip
CHECKS: dict[str, Callable[[Arguments], None]] = {
    "_softmax_backward_data": _same_shape("grad_output", "output"),
    "_log_softmax_backward_data": _same_shape("grad_output", "output"),
    "_masked_softmax_backward": _same_shape("grad_output", "output"),
    "native_batch_norm": _channels(*_NORM),
    "cudnn_batch_norm": _channels(*_NORM),
    "miopen_batch_norm": _channels(*_NORM),
    "_embedding_bag": _embedding_bag,
    "_embedding_bag_forward_only": _embedding_bag,
    "batch_norm": _channels(*_NORM),
    "_native_batch_norm_legit": _channels(*_NORM),
    "_native_batch_norm_legit_functional": _channels(*_NORM),
    "_native_batch_norm_legit_no_training": _channels(*_NORM),
    "_batch_norm_with_update": _channels(*_NORM),
    "_batch_norm_no_update": _channels(*_NORM),
    "native_batch_norm_backward": _BACKWARD,
    "native_layer_norm_backward": _layer_norm_backward,
    "native_group_norm_backward": _group_norm_backward,
    "nll_loss_backward": _classes,
    "nll_loss2d_backward": _classes,
    "embedding_dense_backward": _embedding_dense_backward,
    "max_pool2d_with_indices_backward": _pool_with_positions("max_pool2d_with_indices", 2),
    "max_pool3d_with_indices_backward": _pool_with_positions("max_pool3d_with_indices", 3),
    "_adaptive_avg_pool2d_backward": _adaptive_pool(2, positions=False),
    "_adaptive_avg_pool3d_backward": _adaptive_pool(3, positions=False),
    "adaptive_max_pool2d_backward": _adaptive_pool(2, positions=True),
    "adaptive_max_pool3d_backward": _adaptive_pool(3, positions=True),
    "avg_pool2d_backward": _gradient_of("avg_pool2d", "grad_output", *_AVERAGE),
    "avg_pool3d_backward": _gradient_of("avg_pool3d", "grad_output", *_AVERAGE),
    "reflection_pad1d_backward": _gradient_of("reflection_pad1d", "grad_output", "self", "padding"),
    "reflection_pad2d_backward": _gradient_of("reflection_pad2d", "grad_output", "self", "padding"),
    "reflection_pad3d_backward": _gradient_of("reflection_pad3d", "grad_output", "self", "padding"),
    "replication_pad1d_backward": _gradient_of(
        "replication_pad1d", "grad_output", "self", "padding"
    ),
    "replication_pad2d_backward": _gradient_of(
        "replication_pad2d", "grad_output", "self", "padding"
    ),
    "replication_pad3d_backward": _gradient_of(
        "replication_pad3d", "grad_output", "self", "padding"
    ),
    "grid_sampler_2d_backward": _grid_backward("grid_sampler_2d"),
    "grid_sampler_3d_backward": _grid_backward("grid_sampler_3d"),
    "_upsample_bilinear2d_aa": _scaled,
    "_upsample_bicubic2d_aa": _scaled,
    "_fft_c2c": _transformed,
    "_fft_r2c": _transformed,
    "_fft_c2r": _transformed_to_real,
    "lu_unpack": lambda a: _pivots(a, "LU_data", "LU_pivots"),
    "linalg_ldl_solve": lambda a: _pivots(a, "LD", "pivots"),
}
