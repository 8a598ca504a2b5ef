"""What torch-directml's kernels do instead, by group of failing results: read off the recorded
numbers, before and without this project's attribution.

A row: a pattern of operators, a direction (empty: both), the ids of causes that are right, and how
it was found. ``benchmarks/recorded_causes.py`` proves the general ones (writes that are lost,
zeros, 32 bits, float32, NaN) from the recorded numbers alone; these rows are the others, found by
recomputing a case with plain torch. Without ids: no kernel is wrong, its adapter is inaccurate.
"""

from __future__ import annotations

from dataclasses import dataclass

N = "nn.functional."
OTHERWISE, CUT, STRIDES = "evaluated-otherwise", "rounded-toward-zero", "strides-ignored"
SUMS = "float16-accumulator|truncating-accumulator|rounded-toward-zero"


# What a kernel does instead, by the id of its cause.
WORDS = {
    "lost-write": "writes to a view that is not contiguous, or has an offset, are lost",
    "zero": "the result, or wrong elements of the gradient, are zero",
    "nan-dropped": "NaN is left out: another number is returned",
    "saturated": "integers saturate that would wrap",
    "int64-truncated": "int64 is cut to 32 bits, or compared by its halves",
    "float32-integers": "integers pass through float32",
    OTHERWISE: "another formula",
    CUT: "each step is rounded toward zero",
    STRIDES: "strides are ignored",
    "float16-accumulator": "partial sums of products are kept in float16",
    "duplicates-dropped": "duplicate indices do not accumulate",
    "indices-ignored": "cotangents stay where they are",
    "argument-ignored": "an argument is ignored",
    "index-base": "indices count from the start of the tensor",
    "first-everywhere": "the first of several numbers stands for all",
    "written-beyond": "a write fills the memory behind it",
    "output-padding-zero": "what output_padding adds is zero",
    "mask-incomplete": "a mask ends before the far corner, or is multiplied (0 · NaN)",
    "offset-ignored": "an offset is ignored",
    "other-side": "the gradient is that of the other side of a kink",
    "crossed-bounds": "the lower bound wins where bounds cross",
    "early-overflow": "an intermediate overflows",
    "stale": "memory is read that was not written",
}


@dataclass(frozen=True)
class RecordedCause:
    operators: str
    direction: str
    right: frozenset[str]
    found: str
    does: str  # in words


def _row(operators: str, right: str, found: str, direction: str = "") -> list[RecordedCause]:
    ids = frozenset(right.split("|")) - {""}
    does = WORDS.get(right.split("|")[0], "exponentials or sums less accurate than the budget")
    return [RecordedCause(name, direction, ids, found, does) for name in operators.split()]


ROWS: tuple[RecordedCause, ...] = (
    *_row("log1p*", OTHERWISE, "inputs with one 1 + x give one result"),
    *_row(f"expm1* {N}celu {N}selu", OTHERWISE, "1 + result is a float32 number"),
    *_row("erfc*", OTHERWISE, "1 − result is a number of the format"),
    *_row("square*", OTHERWISE, "errors of 2^(2·log2 x): −x and x alike, 0 exact"),
    *_row("asinh* atanh", OTHERWISE, "asinh(−∞) is NaN; relative errors grow as 1/x"),
    *_row("remainder*", OTHERWISE, "x − y·floor(x / y) in float32, bit for bit"),
    *_row(f"{N}tanhshrink cosh", OTHERWISE, "differences of exponentials: noise of 2⁻²⁴ near 0"),
    *_row("asin", OTHERWISE, "Abramowitz & Stegun 4.4.45 in float32, cut: 99.9% bit for bit"),
    *_row(f"{N}threshold", f"{OTHERWISE}|{CUT}", "(x > t)·(x − v) + v, bit for bit"),
    *_row(f"{N}soft_margin_loss", OTHERWISE, "log(1 + exp(−16)) in float32: 2⁻²³"),
    *_row("logsumexp", OTHERWISE, "NaN just where the maximum is infinite"),
    *_row("sinc", f"{OTHERWISE}|{CUT}", "sin(πx)/(πx) with float16's π, cut"),
    *_row(f"{N}silu __rdiv__ add.out addcmul_ addcdiv_ div.method", CUT, "bit for bit"),
    *_row("special.ndtr log2* log10*", CUT, "each step cut to float16: 70 to 100% bit for bit"),
    *_row("var var.method std_mean mean", CUT, "each step cut; all below the right one"),
    *_row("norm", CUT, "(Σ|x|ᵖ)^(1/p), each step cut, bit for bit", "forward"),
    *_row(
        f"norm* linalg.norm {N}pairwise_distance", OTHERWISE,
        "gradient ÷ the right one is xᵖ⁽ᵖ⁻¹⁾ ÷ xᵖ⁻¹", "backward",
    ),
    *_row("linalg.vector_norm", f"{OTHERWISE}|zero", "p = 3: as norm; ±∞: zeros", "backward"),
    *_row(f"{N}normalize", f"{OTHERWISE}|negated", "x / (Σxᵖ)^(1/p), without |x|"),
    *_row("addmm inner.out dot", SUMS, "float16: every sum too small in magnitude"),
    *_row(
        f"masked_scatter masked_select* {N}conv1d {N}conv2d {N}conv_transpose1d "
        f"{N}cross_entropy log_softmax.out",
        STRIDES, "the call on the argument's memory in order",
    ),
    *_row(
        f"{N}gelu {N}hardswish {N}hardsigmoid {N}smooth_l1_loss relu_",
        f"{STRIDES}|shifted|transposed|terms-dropped",
        "the right numbers at the places that x's strides name", "backward",
    ),
    *_row(f"{N}gelu.out {N}prelu", f"{STRIDES}|transposed", "the same", "forward"),
    *_row("scatter_add*", "duplicates-dropped|lost-write", "one summand per index"),
    *_row("gather* take_along_dim*", "duplicates-dropped", "one per index", "backward"),
    *_row("cummax* cummin*", "duplicates-dropped|indices-ignored", "one of several", "backward"),
    *_row(f"sort topk {N}max_unpool*", "indices-ignored", "the cotangent itself", "backward"),
    *_row(f"{N}local_response_norm", "argument-ignored|stale", "divided by 1"),
    *_row(f"{N}max_pool2d", "argument-ignored", "windows of ceil_mode=False", "backward"),
    *_row(f"{N}max_pool2d", "index-base|nan-dropped", "indices count from the start", "forward"),
    *_row(f"{N}adaptive_avg_pool*", "argument-ignored|zero", "one window for all"),
    *_row("atan* sort argsort msort", "nan-dropped", "a number where NaN is right", "forward"),
    *_row("quantile nanquantile", "argument-ignored", "the least number, whatever q is"),
    *_row("scatter_reduce", "argument-ignored|duplicates-dropped", "counts are 1", "backward"),
    *_row(f"{N}affine_grid", "first-everywhere", "every point is the first"),
    *_row("lerp_ _foreach_lerp_ optim.Adam", "written-beyond|lost-write", "memory behind it"),
    *_row(f"{N}conv_transpose2d", "output-padding-zero", "zeros where padding was added"),
    *_row("tril tril.method", "mask-incomplete", "x from a diagonal on"),
    *_row("tril_ triu triu_", "mask-incomplete|masked-by-product|lost-write|int64-truncated",
          "x from a diagonal on; NaN where the mask is 0"),
    *_row("__setitem__", "offset-ignored", "zeros as if at offset 0", "backward"),
    *_row(f"{N}leaky_relu {N}rrelu", "other-side", "cotangent, unscaled, where x is 0", "backward"),
    *_row("gt argmin maximum amax.method " + f"{N}hardtanh", "int64-truncated",
          "low halves compared with a sign", "forward"),
    *_row("clamp clamp.method", "crossed-bounds|nan-dropped", "max(min(x, high), low)"),
    *_row("half", CUT, "65,504 beyond the range, every error toward zero"),
    *_row(f"{N}hardsigmoid {N}hardswish", OTHERWISE, "x · (1/6) + 1/2, bit for bit", "forward"),
    *_row(f"{N}softsign", OTHERWISE, "x · (1 / (1 + |x|)) is 0 at 65,504: 1 / 65,505 is subnormal"),
    *_row(f"{N}softplus", "early-overflow", "NaN just where exp(βx) is infinite", "backward"),
    *_row(f"{N}max_pool1d", "argument-ignored|nan-dropped", "windows of dilation 1, bit for bit"),
    *_row(f"{N}nll_loss", "first-everywhere", "each is the first cotangent, negated", "backward"),
    *_row(f"{N}nll_loss", f"argument-ignored|{STRIDES}",
          "28.58 with the weight's memory and without ignore_index, cut to 28.08"),
    *_row("cumprod", "first-everywhere", "beside zeros all have the first one's gradient"),
    *_row("unravel_index", "first-everywhere", "each is the index ÷ the first coefficient"),
    *_row("sub_ __rsub__", "int64-truncated|float32-integers",
          "arguments cut to 32 bits, then float32: bit for bit", "forward"),
    *_row("mvlgamma", "argument-ignored", "x · cotangent: digamma is left out", "backward"),
    *_row(f"{N}pad", "zero|transposed", "5-D: zeros; reflect: width and height exchanged"),
    *_row(f"{N}prelu special.log_ndtr", "", "1.1 and 1.2 × budget", "backward"),
    *_row("sort.method", "stale", "of one number: what the memory held"),
    *_row("mm.out linear nn.functional.linear", SUMS, "float16: partial sums are cut"),
    *_row("tensordot.out", "float32-integers|int64-truncated", "right modulo 2³², but for float32"),
    *_row(f"{N}avg_pool2d", "argument-ignored", "÷ right one is the share of the window inside"),
)  # fmt: skip
