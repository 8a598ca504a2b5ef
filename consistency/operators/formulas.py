"""Operators written otherwise: ``linear`` as x @ Wᵀ + b, ``softmax`` as exp ÷ sum … judged against
the operator in float64.

A healthy formula is as precise as its steps: S adds up how far the result moves when what goes into
a step, or comes out of it, is a little off. Of gradients, the steps are those of the formula in
reverse.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from . import _formulas as written
from ._formulas import Formula
from .declare import FLOAT, Call, Domain, Drawing, Operator, Sample, accumulated, call, resolve
from .hooks import Args, Kwargs, Tensors

FREE = Domain(-4.0, 4.0)
SUMS = Domain(wide=(-4, 3), sums=True)
APART = Domain(0.5, 4.0)
_STEP = 2.0**-28
_PATTERNS = 3
# Slopes that are differences of the rounded result, which cancel where it is near 1.
_SLOPES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sigmoid": lambda y: y * (1.0 - y),
    "tanh": lambda y: 1.0 - y * y,
}
# Steps with roundings of their own between that cancel where the operands are constant.
_OF_STEPS: dict[str, Formula] = {"softmax": written.softmax, "log_softmax": written.log_softmax}


def run(name: str, *args: Any, **kwargs: Any) -> Any:
    function = resolve(name)
    if function is None:
        raise NotImplementedError(f"torch {torch.__version__} has no {name}")
    return function(*args, **kwargs)


def stirred(value: torch.Tensor, salt: float) -> torch.Tensor:
    """Every number a little off, up or down by a fixed, aperiodic sequence."""
    return value * (1.0 + _STEP * signs(value.numel(), salt).reshape(value.shape))


def signs(count: int, salt: float) -> torch.Tensor:
    """So many times ±1."""
    return (
        torch.frac(torch.arange(1, count + 1, dtype=torch.float64) * (2.0**0.5 + 0.1 * salt))
        .sub_(0.5)
        .sign_()
    )


class _Stirring:
    """Runs the steps of a formula, one of whose operands or results is stirred: number ``chosen``,
    counted over all of them.

    From the last one on it is their gradients' turn, in the same order. ``pattern`` chooses among
    sequences: in few numbers, one of them may happen to cancel.
    """

    def __init__(self, chosen: int, last: int = 0, pattern: int = 0) -> None:
        self.chosen, self.last, self.pattern, self.seen = chosen, last, pattern, 0

    def touch(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(self.touch(item) for item in value)
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        self.seen += 1
        return stirred(value, self._salt) if self.seen == self.chosen else self._hooked(value)

    @property
    def _salt(self) -> float:
        return self.seen + 0.37 * self.pattern

    def _hooked(self, value: torch.Tensor) -> torch.Tensor:
        if self.seen + self.last != self.chosen or not value.requires_grad:
            return value
        value, salt = (
            value.view_as(value),
            self._salt,
        )  # a hook on the argument itself would see the gradients of all its uses
        value.register_hook(lambda gradient: stirred(gradient, salt))  # type: ignore[no-untyped-call]
        return value

    def __call__(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if name in _OF_STEPS:
            return _OF_STEPS[name](self, *args, **kwargs)
        touched = [self.touch(arg) for arg in args]
        result = run(name, *touched, **kwargs)
        if name not in _SLOPES or not result.requires_grad:
            return self.touch(result)
        kept = self.touch(result.detach())  # the gradient is made of the result as it was rounded
        return self._hooked(kept + (touched[0] - touched[0].detach()) * _SLOPES[name](kept))


def responses(evaluate: Callable[[_Stirring], list[torch.Tensor]], backward: bool) -> list[float]:
    """By output: the largest response to each step's operands and results (and gradients), all
    added up."""
    counting = _Stirring(0)
    plain = evaluate(counting)
    totals = [0.0] * len(plain)
    for chosen in range(1, counting.seen * (1 + backward) + 1):
        largest = [0.0] * len(plain)
        for pattern in range(_PATTERNS):
            for i, moved in enumerate(evaluate(_Stirring(chosen, counting.seen, pattern))):
                response = torch.nan_to_num((moved - plain[i]).abs() / _STEP, posinf=0.0)
                largest[i] = max(largest[i], float(response.max()) if response.numel() else 0.0)
        totals = [a + b for a, b in zip(totals, largest, strict=True)]
    return totals


def of_steps(formula: Formula) -> Callable[..., Any]:
    """S: |result|, and the largest response to each step's operands and results, all added up."""

    def magnitude(args: Args, kwargs: Kwargs, outputs: Tensors) -> torch.Tensor:
        return outputs[0].abs() + responses(lambda how: [formula(how, *args, **kwargs)], False)[0]

    return magnitude


def of_gradients(formula: Formula) -> Callable[..., Any]:
    """S of gradients, whose own steps are those of the formula in reverse: taken against ±1, as
    much as a cotangent can be."""

    def magnitude(args: Args, kwargs: Kwargs, outputs: Tensors) -> list[torch.Tensor]:
        with torch.enable_grad():
            leaves: list[torch.Tensor] = []
            tracked = _tracking(args, leaves)

            def gradients(how: _Stirring) -> list[torch.Tensor]:
                # What only moves numbers forward sums gradients: so arguments and result are
                # stirred, too.
                result = how.touch(formula(how, *how.touch(tracked), **kwargs))
                against = signs(result.numel(), 0.5).reshape(result.shape)
                found = torch.autograd.grad(result, leaves, against, allow_unused=True)
                return [
                    torch.zeros_like(leaf) if one is None else one
                    for leaf, one in zip(leaves, found, strict=True)
                ]

            moved = responses(gradients, True)
        return [output.abs() + total for output, total in zip(outputs, moved, strict=True)]

    return magnitude


def _tracking(value: Any, leaves: list[torch.Tensor]) -> Any:
    """The arguments with fresh leaves in place of floating tensors, in their order."""
    if isinstance(value, (list, tuple)):
        return type(value)(_tracking(item, leaves) for item in value)
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    leaves.append(value.detach().requires_grad_(True))
    return leaves[-1]


def longest(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    """n: numbers that go in for each that comes out."""
    into = max((arg.numel() for arg in args if isinstance(arg, torch.Tensor)), default=1)
    return max(
        into / max(outputs[0].numel(), 1),
        *(float(a.shape[-1]) for a in args if isinstance(a, torch.Tensor) and a.ndim),
        1.0,
    )


def tensors(*domains: Domain, low: int = 0, high: int = 3) -> Sample:
    """As many tensors of one shape as domains."""

    def sample(d: Drawing) -> Call:
        shape = d.shape(low, high, elements=1024)
        return call(*(d.tensor(shape, domain) for domain in domains))

    return sample


def rows(
    domain: Domain = SUMS,
    *,
    least: int = 1,
    dims: bool = True,
    several: bool = False,
    distinct: bool = False,
) -> Sample:
    """A tensor whose last dimension is worked on, named where ``dims``; ``distinct`` where constant
    rows have no gradient."""

    def sample(d: Drawing) -> Call:
        x = d.tensor(
            (*d.shape(0, 2, most=9), d.size(least, 257)),
            domain,
            values=("distinct",) if distinct else None,
            overlap=not distinct,
        )
        return call(x, *([[-1] if several else -1] if dims else []))

    return sample


def pair(first: str, second: str, *, factors: bool = False, added: str = "") -> Sample:
    """Operands of a product, sizes by letter; ``added`` comes before them, with factors."""

    def sample(d: Drawing) -> Call:
        sizes = {"b": d.size(1, 5), "i": d.size(2, 17), "k": d.size(1, 129), "j": d.size(2, 17)}
        shapes = [
            [sizes[letter] for letter in letters]
            for letters in ([added] if added else []) + [first, second]
        ]
        options = (
            {"beta": d.number(-2, 2), "alpha": d.number(-2, 2)} if factors and d.flag() else {}
        )
        return call(*(d.tensor(shape, SUMS) for shape in shapes), **options)

    return sample


def crossed(d: Drawing) -> Call:
    return call(*(d.tensor((d.size(1, 9), d.size(1, 17)), FREE) for _ in range(2)))


def contracted(d: Drawing) -> Call:
    return call(*pair("bk", "kj")(d).args, dims=1)


def linear(d: Drawing) -> Call:
    into, out = d.size(1, 129), d.size(1, 33)
    bias = [d.tensor((out,), FREE)] if d.flag() else []
    return call(d.tensor((*d.shape(0, 2, most=9), into), SUMS), d.tensor((out, into), SUMS), *bias)


def normed(d: Drawing) -> Call:
    size = d.size(2, 257)
    affine = [d.tensor((size,), FREE) for _ in range(2 * d.flag())]
    return call(d.tensor((*d.shape(0, 2, most=9), size), FREE), [size], *affine)


def root_normed(d: Drawing) -> Call:
    size = d.size(2, 257)
    return call(
        d.tensor((*d.shape(0, 2, most=9), size), FREE),
        [size],
        d.tensor((size,), FREE) if d.flag() else None,
        2.0**-10,
    )


def grouped(d: Drawing) -> Call:
    groups, width = d.size(1, 4), d.size(1, 4)
    affine = [d.tensor((groups * width,), FREE) for _ in range(2 * d.flag())]
    return call(d.tensor((d.size(1, 4), groups * width, d.size(2, 17)), FREE), groups, *affine)


def images(d: Drawing) -> Call:
    channels, size = d.size(1, 8), d.size(1, 3)
    x = d.tensor((d.size(1, 3), channels, d.size(size * 2, 12), d.size(size * 2, 12)), SUMS)
    weight = d.tensor((d.size(1, 8), channels, size, d.size(1, size)), SUMS)
    bias = [d.tensor((weight_rows(weight),), FREE)] if d.flag() else []
    options = {
        name: d.choice(*values)
        for name, values in {"stride": (1, 2), "padding": (0, int(size > 1))}.items()
    }
    return call(x, weight, *bias, **options)


def signals(d: Drawing) -> Call:
    channels, size = d.size(1, 8), d.size(1, 5)
    weight = d.tensor((d.size(1, 8), channels, size), SUMS)
    bias = [d.tensor((weight_rows(weight),), FREE)] if d.flag() else []
    x = d.tensor((d.size(1, 3), channels, d.size(size, 33)), SUMS)
    return call(x, weight, *bias, stride=d.choice(1, 2), padding=d.choice(0, 1))


def weight_rows(weight: Any) -> int:
    """The first size of a weight that may be drawn as a view: found on a tensor without numbers."""
    from ..core.views import view_of

    return int(view_of(torch.empty(_count(weight.base), device="meta"), weight).shape[0])


def _count(shape: tuple[int, ...]) -> int:
    return functools.reduce(lambda a, b: a * b, shape, 1)


def windows(d: Drawing) -> Call:
    size = d.size(1, 4)
    return call(
        d.tensor((d.size(1, 3), d.size(1, 5), d.size(size, 17), d.size(size, 17)), FREE), size
    )


def picked(d: Drawing) -> Call:
    """As windows, all numbers distinct: among equal ones torch gives the gradient to the first, and
    the formula to all."""
    size = d.size(1, 4)
    shape = (d.size(1, 3), d.size(1, 5), d.size(size, 17), d.size(size, 17))
    return call(d.tensor(shape, FREE, values=("distinct",), overlap=False), size)


def enlarged(d: Drawing) -> Call:
    return call(
        d.tensor((d.size(1, 3), d.size(1, 5), d.size(1, 9), d.size(1, 9)), FREE),
        scale_factor=d.choice(2, 3, 1),
    )


def heads(d: Drawing) -> Call:
    batch, width = d.shape(1, 2, most=4), d.size(1, 65)
    length, other = d.size(1, 33), d.size(1, 33)
    return call(*(d.tensor((*batch, n, width), FREE) for n in (length, other, other)))


def classes(d: Drawing) -> Call:
    rows, count = d.size(1, 33), d.size(2, 65)
    return call(d.tensor((rows, count), FREE), d.index((rows,), count))


def two_sets(d: Drawing) -> Call:
    """Apart from each other: next to 0 a distance has no gradient."""
    width = d.size(1, 33)
    return call(
        d.tensor((d.size(1, 17), width), APART),
        d.tensor((d.size(1, 17), width), Domain(-4.0, -0.5)),
    )


def unit_rows(d: Drawing) -> Call:
    return call(
        d.tensor((d.size(1, 17), d.size(2, 65)), APART)
    )  # of a single number only the sign would be left


def two_rows(d: Drawing) -> Call:
    shape = (d.size(1, 17), d.size(2, 65))
    return call(d.tensor(shape, APART), d.tensor(shape, Domain(-4.0, -0.5)))


def looked_up(d: Drawing) -> Call:
    table = d.size(1, 33), d.size(1, 17)
    return call(d.index(d.shape(1, 2, most=9), table[0]), d.tensor(table, FREE))


def added_at(d: Drawing) -> Call:
    size, width, count = d.size(1, 17), d.size(1, 17), d.size(1, 33)
    return call(
        d.tensor((size, width), SUMS), 0, d.index((count,), size), d.tensor((count, width), SUMS)
    )


def scattered(d: Drawing) -> Call:
    height, size, count = d.size(1, 9), d.size(1, 17), d.size(1, 33)
    return call(
        d.tensor((height, size), SUMS),
        1,
        d.index((height, count), size),
        d.tensor((height, count), SUMS),
    )


def gathered(d: Drawing) -> Call:
    height, size = d.size(1, 9), d.size(1, 33)
    return call(d.tensor((height, size), FREE), 1, d.index((height, d.size(1, 33)), size))


def padded(d: Drawing) -> Call:
    return call(d.tensor((*d.shape(0, 2), d.size(4, 17)), FREE), [d.integer(0, 3), d.integer(0, 3)])


def several(d: Drawing) -> Call:
    shape = d.shape(0, 3)
    return call([d.tensor(shape, FREE) for _ in range(d.integer(1, 4))])


def rolled(d: Drawing) -> Call:
    shape = d.shape(1, 3)
    return call(d.tensor(shape, FREE), d.integer(-5, 5), 0)


def masked(d: Drawing) -> Call:
    shape = d.shape(0, 3)
    return call(d.tensor(shape, dtype="bool"), d.tensor(shape, FREE), d.tensor(shape, FREE))


def filled(d: Drawing) -> Call:
    shape = d.shape(0, 3)
    return call(d.tensor(shape, FREE), d.tensor(shape, dtype="bool"), d.number(-4, 4))


def weighed(d: Drawing) -> Call:
    shape = d.shape(0, 3)
    return call(d.tensor(shape, FREE), d.tensor(shape, FREE), d.choice(0.25, 0.75, d.number(-1, 2)))


def dominant(d: Drawing) -> Call:
    """Triangular with a strong diagonal would be too easy: 2×2 to 4×4 blocks of numbers that are
    rarely singular."""
    n = d.size(1, 4)
    return call(d.tensor((n, n), Domain(1.0, 2.0, points=())))


# Formula's name → (operator, words, formula, how to draw).
PAIRS: list[tuple[str, str, str, Formula, Sample]] = [
    ("linear", "nn.functional.linear", "x @ weight.T + bias", written.linear, linear),
    ("matmul", "matmul", "(x[…, :, None] * y).sum(-2)", written.matmul, pair("ik", "kj")),
    ("mm", "mm", "(x[:, :, None] * y).sum(-2)", written.matmul, pair("ik", "kj")),
    ("bmm", "bmm", "einsum", written.bmm, pair("bik", "bkj")),
    ("mv", "mv", "(x * y).sum(-1)", written.mv, pair("ik", "k")),
    ("dot", "dot", "(x * y).sum()", written.mv, pair("k", "k")),
    ("outer", "outer", "x[:, None] * y", written.outer, pair("i", "j")),
    (
        "addmm",
        "addmm",
        "beta·c + alpha·(x @ y)",
        written.addmm,
        pair("ik", "kj", factors=True, added="ij"),
    ),
    (
        "baddbmm",
        "baddbmm",
        "beta·c + alpha·(x @ y)",
        written.baddbmm,
        pair("bik", "bkj", factors=True, added="bij"),
    ),
    (
        "addmv",
        "addmv",
        "beta·c + alpha·(x @ y)",
        written.addmv,
        pair("ik", "k", factors=True, added="i"),
    ),
    (
        "addr",
        "addr",
        "beta·c + alpha·x[:, None]·y",
        written.addr,
        pair("i", "j", factors=True, added="ij"),
    ),
    ("kron", "kron", "products of unsqueezed operands", written.kron, crossed),
    ("tensordot", "tensordot", "einsum", written.tensordot, contracted),
    ("softmax", "softmax", "exp(x − max) / sum written out", written.softmax, rows(FREE, least=3)),
    (
        "log_softmax",
        "log_softmax",
        "(x − max) − log(sum(exp)) written out",
        written.log_softmax,
        rows(FREE, least=3),
    ),
    ("logsumexp", "logsumexp", "log(sum(exp(x − max))) + max", written.logsumexp, rows(FREE)),
    (
        "layer_norm",
        "nn.functional.layer_norm",
        "mean and variance written out",
        written.layer_norm,
        normed,
    ),
    (
        "rms_norm",
        "nn.functional.rms_norm",
        "the mean of squares written out",
        written.rms_norm,
        root_normed,
    ),
    (
        "group_norm",
        "nn.functional.group_norm",
        "mean and variance written out",
        written.group_norm,
        grouped,
    ),
    ("normalize", "nn.functional.normalize", "x / sqrt(sum(x²))", written.normalize, unit_rows),
    ("var", "var", "the mean of squared differences written out", written.var, rows(SUMS, least=2)),
    (
        "std",
        "std",
        "the root of the mean of squared differences",
        written.std,
        rows(APART, least=3, distinct=True),
    ),
    ("mean", "mean", "sum / n", written.mean, rows()),
    ("norm", "linalg.vector_norm", "sqrt(sum(x²))", written.norm, rows(APART, dims=False)),
    ("gelu", "nn.functional.gelu", "x · erfc(−x/√2) / 2", written.gelu, tensors(FREE)),
    ("silu", "nn.functional.silu", "x / (1 + exp(−x))", written.silu, tensors(FREE)),
    ("sigmoid", "sigmoid", "1 / (1 + exp(−x))", written.sigmoid, tensors(FREE)),
    ("tanh", "tanh", "2·sigmoid(2x) − 1", written.tanh, tensors(FREE)),
    ("softplus", "nn.functional.softplus", "logaddexp(x, 0)", written.softplus, tensors(FREE)),
    ("mish", "nn.functional.mish", "x · tanh(softplus(x))", written.mish, tensors(FREE)),
    (
        "attention",
        "nn.functional.scaled_dot_product_attention",
        "softmax(q @ kᵀ / √d) @ v",
        written.attention,
        heads,
    ),
    (
        "cross_entropy",
        "nn.functional.cross_entropy",
        "−mean(log_softmax at the target)",
        written.cross_entropy,
        classes,
    ),
    ("mse_loss", "nn.functional.mse_loss", "mean((x − y)²)", written.mse_loss, tensors(FREE, FREE)),
    ("l1_loss", "nn.functional.l1_loss", "mean(|x − y|)", written.l1_loss, tensors(FREE, FREE)),
    (
        "cosine_similarity",
        "nn.functional.cosine_similarity",
        "x·y / √(x·x · y·y)",
        written.cosine_similarity,
        two_rows,
    ),
    (
        "pairwise_distance",
        "nn.functional.pairwise_distance",
        "√sum((x − y + eps)²)",
        written.pairwise_distance,
        two_rows,
    ),
    ("cdist", "cdist", "√sum((x − y)²)", written.cdist, two_sets),
    ("conv2d", "nn.functional.conv2d", "unfold and matmul", written.conv2d, images),
    ("conv1d", "nn.functional.conv1d", "windows and einsum", written.conv1d, signals),
    ("avg_pool2d", "nn.functional.avg_pool2d", "means of windows", written.avg_pool2d, windows),
    ("max_pool2d", "nn.functional.max_pool2d", "largest of windows", written.max_pool2d, picked),
    ("nearest", "nn.functional.interpolate", "indexing", written.nearest, enlarged),
    ("embedding", "nn.functional.embedding", "one-hot matmul", written.embedding, looked_up),
    ("index_add", "index_add", "one-hot matmul", written.index_add, added_at),
    ("scatter_add", "scatter_add", "one-hot products, summed", written.scatter_add, scattered),
    ("gather", "gather", "advanced indexing", written.gather, gathered),
    ("cumsum", "cumsum", "a triangular matmul", written.cumsum, rows()),
    (
        "trapezoid",
        "trapezoid",
        "a sum of means",
        written.trapezoid,
        rows(SUMS, dims=False, least=2),
    ),
    ("rfft", "fft.rfft", "matmul with the DFT matrix", written.rfft, rows(FREE, dims=False)),
    ("pad", "nn.functional.pad", "cat with zeros", written.pad, padded),
    ("stack", "stack", "cat of unsqueezed tensors", written.stack, several),
    ("roll", "roll", "cat of two slices", written.roll, rolled),
    ("where", "where", "products with the mask", written.where, masked),
    ("masked_fill", "masked_fill", "torch.where(mask, value, x)", written.masked_fill, filled),
    ("lerp", "lerp", "x + weight·(y − x)", written.lerp, weighed),
    ("hypot", "hypot", "√(x² + y²)", written.hypot, tensors(APART, APART)),
]

# Work-arounds: by operator, words and formula.
FORMULAS: dict[str, list[tuple[str, Formula]]] = {}
for _, name, words, how, _sample in PAIRS:
    FORMULAS.setdefault(name, []).append((words, how))


def parts(name: str, *args: Any) -> torch.Tensor:
    """A complex result as real numbers."""
    return torch.view_as_real(run(name, *args))


def of_contiguous(name: str, *args: Any) -> Any:
    """torch.kron refuses some transposed operands (docs/findings.md), which the formula takes."""
    return run(name, *(arg.contiguous() for arg in args))


# Where the operator itself loses digits in float64 that the formula keeps: (1 + erf)/2 below 0, 1 −
# tanh² far from it.
_FLOAT32_ONLY = frozenset({"gelu", "tanh"})
# Among equal numbers (a tape begins with some) their gradients are defined differently, or not at
# all.
_FORWARD_ONLY = frozenset({"max_pool2d", "std"})
# Each gradient has a factor that is a sum, of as many terms as went in.
_THROUGH_SUMS = frozenset(
    {"norm", "logsumexp", "cosine_similarity", "pairwise_distance", "cdist", "cross_entropy"}
)
REFERENCES = {"rfft": parts, "kron": of_contiguous}


def declared(short: str, original: str, formula: Formula, sample: Sample) -> Operator:
    """The formula as an operator of its own, whose float64 reference is the operator that it is a
    formula for."""
    error = accumulated(
        of_steps(formula), longest, wide_accumulation=False, backward=of_gradients(formula)
    )
    return Operator(
        name=f"formula.{short}", family="formulas", sample=sample, dtypes=("float32",
        ) if short in _FLOAT32_ONLY else FLOAT,
        reference=functools.partial(REFERENCES.get(short, run), original),
        function=functools.partial(formula, run) if resolve(original) is not None else None,
        error=error, differentiable=short not in _FORWARD_ONLY,
        traits=frozenset(
            {"constant"}
            if short == "max_pool2d"
            else {"through-sums"}
            if short in _THROUGH_SUMS
            else ()
        ),
    )  # fmt: skip


OPERATORS = [
    declared(short, original, formula, sample) for short, original, _, formula, sample in PAIRS
]
