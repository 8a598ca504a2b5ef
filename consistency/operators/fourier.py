"""Fourier transforms of real tensors. Complex results are compared as pairs of numbers; S = log₂ n
· ‖x‖₂ of each transform."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from .declare import (
    COMPLEX,
    EVERY,
    EXACT,
    FLOAT,
    INTEGERS,
    REAL,
    Call,
    Domain,
    Drawing,
    Operator,
    Sample,
    accumulated,
    call,
    one,
)
from .hooks import Args, Kwargs, Tensors, hook
from .parameter_sampling import optional_arguments

WEIGHTS = Domain(0.5, 1.0, propagates=())  # of a window without zeros
SIGNAL = Domain(wide=(-10, 10), sums=True)
NORMS = ("ortho", "forward")
LENGTHS = (1, 8, 9, 31, 64, 100, 127, 600, 1024)  # of the result: cut off or padded with zeros
HALVES = frozenset(
    {"irfft", "hfft", "irfft2", "irfftn", "hfft2", "hfftn"}
)  # take one half of a symmetric spectrum


def along_one(name: str) -> Sample:
    """Along one dim of any length, primes included; half spectra have at least two numbers. One
    signal in sixteen is long."""

    def sample(d: Drawing) -> Call:
        length, before, after = (
            d.size(2 if name in HALVES else 1, 513),
            d.shape(0, 1, most=8),
            (d.integer(1, 3),) if d.flag() else (),
        )
        if d.integer(0, 15) == 15:
            length, before = d.choice(2049, 4099, 8192, 6000), before[:0]
        shape, dim = (*before, length, *after), len(before)
        where = {} if not after and not d.flag() else {"dim": dim - (len(shape) if d.flag() else 0)}
        return call(
            d.tensor(shape, SIGNAL),
            **where,
            **optional_arguments(d, n=LENGTHS[name in HALVES :], norm=NORMS),
        )

    return sample


def along_two(name: str) -> Sample:
    return lambda d: grid(d, name, 2)


def along_all(name: str) -> Sample:
    """Over all dims, or some of them."""

    def sample(d: Drawing) -> Call:
        return grid(d, name, d.integer(1, 3))

    return sample


def grid(d: Drawing, name: str, rank: int) -> Call:
    min_size = 2 if name in HALVES else 1
    shape = [d.size(min_size, 33 if rank < 3 else 13) for _ in range(rank)]
    batch = d.shape(0, 1, most=3)
    dims = list(range(-rank, 0))
    orders = [dims, dims[::-1], [*dims[1:], dims[0]]]
    if d.choice(False, False, True):  # counted from the front
        orders = [[each + len(batch) + rank for each in order] for order in orders]
    size = {}
    if d.choice(False, False, True):  # -1 leaves a dimension as it is
        size = {"s": [d.integer(min_size, 17) if d.integer(0, 4) < 4 else -1 for _ in dims]}
    # Sizes alone are those of the last dims.
    implied = (rank == 2 or name[-1] == "n") and (not batch or name.endswith("2") or bool(size))
    dim = {} if implied and d.flag() else {"dim": d.choice(*orders)}
    return call(
        d.tensor((*batch, *shape), SIGNAL),
        **size,
        **dim,
        **optional_arguments(d, norm=NORMS),
    )


def shifted(d: Drawing) -> Call:
    """Along all dims, one, or several: torch refuses a tensor that has none."""
    shape = d.shape(1, 4)
    match d.choice("all", "several", "one"):
        case "several":
            return call(d.tensor(shape, REAL), dim=list(d.dims(shape)))
        case "one":
            return call(d.tensor(shape, REAL), dim=d.dim(shape))
    return call(d.tensor(shape, REAL))


def short_time(d: Drawing) -> Call:
    """Frames of a signal; centered frames need half a frame on each side to reflect."""
    frame = d.size(2, 129)
    length = d.size(frame, 2048)
    hop = (
        None
        if frame >= 4 and d.choice(False, False, True)
        else max(1, frame // d.choice(4, 2, 1, 3))
    )
    # A shorter window lies in the middle of its frame.
    width = d.integer(2, frame) if d.choice(False, False, True) else frame
    window: dict[str, Any] = {"win_length": width} if width != frame else {}
    window["window"] = d.tensor((width,), Domain(0.0, 1.0)) if d.flag() else None
    signal = d.tensor((*d.shape(0, 1, most=3), length), SIGNAL)
    return call(
        signal,
        frame,
        **({} if hop is None else {"hop_length": hop}),
        **window,
        return_complex=True,
        **optional_arguments(
            d,
            center=(False,),
            normalized=(True,),
            onesided=(False,),
            pad_mode=("constant", "replicate"),
        ),
    )


def inverse_short_time(d: Drawing) -> Call:
    """Frames that overlap or touch each other, under a window without zeros, which would leave
    samples that no frame tells. Shrinks towards two short frames."""
    frame, frames = d.size(2, 65), d.size(2, 17)
    options = optional_arguments(d, center=(False,), normalized=(True,), onesided=(False,))
    bins = frame if options.get("onesided") is False else frame // 2 + 1
    hop = max(1, frame // d.choice(4, 2, 1, 3))
    if frame < 4 or d.flag():
        options["hop_length"] = hop
    if options.get("onesided") is False and d.flag():
        options["return_complex"] = True
    if frames > 3 and d.choice(False, False, True):
        options["length"] = d.integer(1, 2 * hop if "hop_length" in options else frame // 2)
    width = frame
    # Its ends are no samples of the result then, or lie in other frames.
    fits = frame > 4 and "center" not in options and options.get("hop_length", 1) < frame
    if fits and d.choice(False, False, True):  # in the middle of its frame
        width = options["win_length"] = frame - d.integer(0, 1)
    options["window"] = d.tensor((width,), WEIGHTS, dtype="float32")
    return call(d.tensor((*d.shape(0, 1, most=3), bins, frames), SIGNAL), frame, **options)


def as_pairs(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """Complex numbers as pairs of their parts. Which part becomes NaN is open (C99, Annex G): a
    factor of i swaps them, and a kernel that knows it leaves the other part alone."""
    return tuple(_parts(output) if output.is_complex() else output for output in outputs)


def _parts(numbers: torch.Tensor) -> torch.Tensor:
    pairs = torch.view_as_real(numbers.resolve_conj())
    return pairs.masked_fill(pairs.isnan().any(-1, keepdim=True), math.nan)


def dims_of(name: str, args: Args, kwargs: Kwargs) -> list[int]:
    """Those that are named; else the last ones, as many as there are sizes, or all of n-dimensional
    transforms."""
    x, dims = args[0], kwargs.get("dim")
    if dims is None:
        every = len(kwargs.get("s") or x.shape)
        count = every if name.endswith("n") else 2 if name.endswith("2") else 1
        dims = list(range(-count, 0))
    return [dim % max(x.ndim, 1) for dim in (dims if isinstance(dims, Sequence) else [dims])]


def length_of_last(x: torch.Tensor, dims: Sequence[int], kwargs: Kwargs) -> int:
    """The length that the last transform takes of the signal; None and -1 say all of it."""
    asked = kwargs.get("n") or (kwargs.get("s") or (-1,))[-1]
    return int(x.shape[dims[-1]] if asked == -1 else asked)


def of_transform(name: str) -> Any:
    """log₂ n · (‖x‖₂ × the norm's factor + |ref|) + max |ref|; n is the product of the lengths; a
    half spectrum counts twice.

    ‖x‖₂ is the root mean square of a spectrum. Where one line holds it all, others are differences
    of numbers half as large as it.
    """
    inverse = name.startswith("i")

    def size(args: Args, kwargs: Kwargs, outputs: Tensors) -> torch.Tensor:
        x, out, dims = args[0], outputs[0], dims_of(name, args, kwargs)
        x = x if x.is_floating_point() or x.is_complex() else x.double()
        lengths = [out.shape[dim] for dim in dims]
        if name.startswith(("rfft", "ihfft")):  # the result is the half spectrum
            lengths[-1] = length_of_last(x, dims, kwargs)
        n = math.prod(lengths)
        norm = kwargs.get("norm") or "backward"
        factor = n**-0.5 if norm == "ortho" else 1.0 / n if (norm == "backward") == inverse else 1.0
        energy = (x.abs() ** 2).sum(dims, keepdim=True).sqrt() * math.sqrt(2.0)
        peak = out.abs().amax(dims, keepdim=True) if out.numel() else 0.0
        full = (energy * factor + out.abs()) * max(math.log2(n), 1.0) + peak
        return torch.stack([full, full], -1) if out.is_complex() else full

    return size


@hook
def of_frames(outputs: Tensors, x: Any, n_fft: Any, *_: Any, **__: Any) -> Any:
    """√n · max|x| · log₂ n bounds every frame, but for the line that holds it all."""
    every = float(x.abs().max()) * math.sqrt(n_fft) * max(math.log2(n_fft), 1.0)
    if not outputs[0].is_complex():  # of gradients
        return every
    full = every + outputs[0].abs().amax(-2, keepdim=True).expand(outputs[0].shape)
    return torch.stack([full, full], -1)


@hook
def of_samples(outputs: Tensors, x: Any, n_fft: Any, *_: Any, **options: Any) -> torch.Tensor:
    """max|x|·log₂ n bounds the steps of every frame, whose samples are weighted by a window that
    is at least ½, and divided by the sum of its squares."""
    scale = math.sqrt(n_fft) if options.get("normalized") else 1.0
    size = 4.0 * float(x.abs().max()) * scale * max(math.log2(n_fft), 1.0)
    return torch.full_like(outputs[0].abs(), size)


def transform(name: str, sample: Sample) -> Operator:
    error = accumulated(of_transform(name), one)
    return Operator(
        name=f"fft.{name}",
        family="fft",
        sample=sample,
        error=error,
        dtypes=(*FLOAT, *INTEGERS, "bool"),
        traits=frozenset({"linear"}),
        observe=as_pairs,
        complex=not name.startswith(("rfft", "ihfft")),  # those take real numbers only
    )


def shift(name: str) -> Operator:
    return Operator(
        name=f"fft.{name}",
        family="fft",
        sample=shifted,
        error=EXACT,
        dtypes=EVERY,
        traits=frozenset({"linear"}),
        complex=True,
    )


OPERATORS = [
    *(
        transform(name, along_one(name))
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
    ),
    *(
        transform(name, along_two(name))
        for name in ("fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2")
    ),
    *(
        transform(name, along_all(name))
        for name in ("fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn")
    ),
    shift("fftshift"),
    shift("ifftshift"),
    Operator(
        name="stft",
        family="fft",
        sample=short_time,
        error=accumulated(of_frames, one),
        dtypes=FLOAT,
        observe=as_pairs,
    ),
    Operator(
        name="istft",
        family="fft",
        sample=inverse_short_time,
        error=accumulated(of_samples, one),
        dtypes=COMPLEX,
        differentiable_inputs=(0,),
    ),
]
