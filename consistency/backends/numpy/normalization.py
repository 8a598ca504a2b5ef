"""Softmax and its relatives, and layers that standardize."""

from collections.abc import Sequence

import numpy as np

from consistency.backends.numpy.dimensions import along, count, row_mean, row_sum
from consistency.backends.numpy.dtypes import Array, as_dtype, constant
from consistency.backends.numpy.implementations import implements
from consistency.backends.numpy.reductions import row_log_total, row_variance, vector_norm


def _row_softmax(rows: Array) -> Array:
    if not rows.size:
        return rows
    weights = np.exp(rows - rows.max(-1, keepdims=True))
    return np.asarray(weights / row_sum(weights)[..., None])


def _row_log_softmax(rows: Array) -> Array:
    if not rows.size:
        return rows
    shift = rows.max(-1, keepdims=True)
    return np.asarray((rows - shift) - row_log_total(rows, shift)[..., None])


@implements("softmax", wide=True)
def softmax(input: Array, dim: int, *, dtype: str | None = None) -> Array:
    return along(input.astype(as_dtype(dtype, input.dtype)), dim, _row_softmax)


@implements("log_softmax", wide=True)
def log_softmax(input: Array, dim: int, *, dtype: str | None = None) -> Array:
    return along(input.astype(as_dtype(dtype, input.dtype)), dim, _row_log_softmax)


@implements("nn.functional.softmin", wide=True)
def softmin(
    input: Array, dim: int | None = None, _stacklevel: int = 3, dtype: str | None = None
) -> Array:
    if dim is None:
        raise NotImplementedError("softmin without dim")
    return softmax(np.negative(input), dim, dtype=dtype)


@implements("nn.functional.normalize", wide=True, integers=False)
def normalize(
    input: Array, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: None = None
) -> Array:
    return np.divide(input, np.maximum(vector_norm(input, p, dim, True), constant(eps, input)))


# --- standardizing layers


def _affine(x: Array, weight: Array | None, bias: Array | None, shape: Sequence[int]) -> Array:
    """x · weight + bias, both reshaped to broadcast."""
    if weight is not None:
        x = x * weight.reshape(shape)
    return x if bias is None else x + bias.reshape(shape)


def _standardized(rows: Array, eps: float) -> Array:
    variance, center = row_variance(rows, 0)
    return np.asarray(
        (rows - center[..., None]) / np.sqrt(variance + constant(eps, rows))[..., None]
    )


def _per_channel(x: Array) -> tuple[int, ...]:
    """The shape in which one number for each channel (dimension 1) broadcasts with `x`."""
    return (1, -1, *[1] * (x.ndim - 2)) if x.ndim > 1 else (-1,)


@implements("nn.functional.layer_norm", wide=True, integers=False, as_first=True)
def layer_norm(
    input: Array,
    normalized_shape: Sequence[int],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> Array:
    outer = input.shape[: input.ndim - len(normalized_shape)]
    rows = input.reshape(count(outer), count(normalized_shape))
    return _affine(_standardized(rows, eps).reshape(input.shape), weight, bias, normalized_shape)


@implements("nn.functional.rms_norm", wide=True, integers=False, as_first=True)
def rms_norm(
    input: Array,
    normalized_shape: Sequence[int],
    weight: Array | None = None,
    eps: float | None = None,
) -> Array:
    if eps is None:
        if input.dtype == np.longdouble:
            raise NotImplementedError("eps=None is another number in every dtype")
        eps = float(np.finfo(input.dtype).eps)
    rows = input.reshape(
        *input.shape[: input.ndim - len(normalized_shape)], count(normalized_shape)
    )
    size = np.sqrt(row_mean(rows * rows) + constant(eps, rows))
    scaled = (rows / size[..., None]).reshape(input.shape)
    return _affine(scaled, weight, None, normalized_shape)


def _refuse_one_value(others: int, spatial: tuple[int, ...]) -> None:
    """torch standardizes no single value, whose deviation from itself is 0."""
    if others * count(spatial) == 1:
        raise ValueError("a single value for each channel cannot be standardized")


@implements("nn.functional.group_norm", wide=True, integers=False, as_first=True)
def group_norm(
    input: Array,
    num_groups: int,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> Array:
    batch, channels = input.shape[:2]
    _refuse_one_value(batch * (channels // num_groups), input.shape[2:])
    rows = input.reshape(batch * num_groups, channels // num_groups * count(input.shape[2:]))
    return _affine(_standardized(rows, eps).reshape(input.shape), weight, bias, _per_channel(input))


@implements("nn.functional.instance_norm", wide=True, integers=False, as_first=True)
def instance_norm(
    input: Array,
    running_mean: Array | None = None,
    running_var: Array | None = None,
    weight: Array | None = None,
    bias: Array | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Array:
    if use_input_stats and (running_mean is not None or running_var is not None):
        raise NotImplementedError("running statistics would have to be updated in place")
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    _refuse_one_value(1, input.shape[2:])
    return group_norm(input, input.shape[1], weight, bias, eps)


@implements("nn.functional.batch_norm", wide=True, integers=False, as_first=True)
def batch_norm(
    input: Array,
    running_mean: Array | None,
    running_var: Array | None,
    weight: Array | None = None,
    bias: Array | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Array:
    channels = _per_channel(input)
    if training:
        if running_mean is not None or running_var is not None:
            raise NotImplementedError("running statistics would have to be updated in place")
        _refuse_one_value(input.shape[0], input.shape[2:])
        rows = np.moveaxis(input, 1, 0)
        scaled = _standardized(rows.reshape(rows.shape[0], count(rows.shape[1:])), eps).reshape(
            rows.shape
        )
        return _affine(np.moveaxis(scaled, 0, 1), weight, bias, channels)
    if running_mean is None or running_var is None:
        raise ValueError("evaluation needs running_mean and running_var")
    deviation = np.sqrt(running_var + constant(eps, input)).reshape(channels)
    return _affine((input - running_mean.reshape(channels)) / deviation, weight, bias, channels)


@implements("nn.functional.local_response_norm", wide=True, integers=False)
def local_response_norm(
    input: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Array:
    """x / (k + alpha · mean of the squares over `size` neighboring channels, zeros beyond them) **
    beta."""
    if not input.size:  # no window fits into the padding alone
        return input.copy()
    ends = [(0, 0), (size // 2, (size - 1) // 2)] + [(0, 0)] * (input.ndim - 2)
    neighbors = np.lib.stride_tricks.sliding_window_view(np.pad(input * input, ends), size, 1)
    share = row_sum(neighbors) / constant(size, input)
    return np.divide(
        input, np.power(constant(k, input) + constant(alpha, input) * share, constant(beta, input))
    )
