"""Functions of a user's own are judged by the roundings of their own steps: healthy ones pass, a
step that is off is noticed."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch.nn import functional as F

import consistency
from consistency.cli.main import main as cli
from consistency.core import dtypes
from consistency.core.dtypes import name_of
from consistency.generate.materialize import case_of, prepare
from consistency.operators import get
from consistency.operators.declare import Operator, call
from consistency.operators.derivatives import second
from consistency.reference.perturbation import ulp
from consistency.reference.recorded_steps import RecordedSteps, UntraceableError

HALF = (torch.float16, torch.bfloat16)
OFF = 1.0 + 2.0**-6
SIZES = ((1, 8), (2, 64), (4, 100), (8, 512), (3, 1000))


def one_of(t: torch.Tensor) -> torch.Tensor:
    """One element off, that of the middle row's largest magnitude: of a small one nothing may be
    left in the sum with a bias."""
    factors = torch.ones_like(t, dtype=torch.float64).reshape(-1)
    factors[int(t.detach().abs().argmax())] = OFF
    return t * factors.reshape(t.shape).to(t.dtype)


def rms_norm(x: Any, weight: Any, *, off: str = "") -> Any:
    inverse = torch.rsqrt((x * x).mean(-1, keepdim=True) * (OFF if off == "mean" else 1.0) + 1e-6)
    inverse = one_of(inverse) if off == "one" else inverse * OFF if off == "rsqrt" else inverse
    return x * inverse * weight


def softmax(x: Any, *, off: str = "") -> Any:
    e = torch.exp(x - x.amax(-1, keepdim=True))
    e = one_of(e) if off == "exp" else e
    total = e.sum(-1, keepdim=True)
    return e / (total * OFF if off == "sum" else total)


def layer_norm(x: Any, weight: Any, bias: Any, *, off: str = "") -> Any:
    centered = x - x.mean(-1, keepdim=True) * (OFF if off == "mean" else 1.0)
    centered = one_of(centered) if off == "one" else centered
    inverse = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + 1e-5)
    return centered * (inverse * OFF if off == "rsqrt" else inverse) * weight + bias


WRITTEN: dict[str, tuple[Callable[..., Any], Callable[..., Any], int]] = {
    "rms_norm": (rms_norm, lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6), 2),
    "softmax": (softmax, lambda x: F.softmax(x, -1), 1),
    "layer_norm": (layer_norm, lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, 1e-5), 3),
}
PLANTED = [
    *(("rms_norm", off) for off in ("mean", "rsqrt", "one")),
    *(("softmax", off) for off in ("sum", "exp")),
    *(("layer_norm", off) for off in ("mean", "rsqrt", "one")),
]


def arguments(seed: int, count: int, dtype: torch.dtype) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    rows, size = SIZES[seed % len(SIZES)]
    x, weight, bias = (
        torch.randn(*shape, generator=random) for shape in ((rows, size), (size,), (size,))
    )
    return [t.to(dtype) for t in (x, 1.0 + 0.2 * weight, bias)[:count]]


def verdict_of(function: Callable[..., Any], args: list[torch.Tensor], **how: Any) -> str:
    try:
        return str(consistency.assert_consistent(function, *args, **how)[0].verdict)
    except consistency.Divergence as divergence:
        return str(divergence.results[0].verdict)  # type: ignore[attr-defined]


def accused(
    name: str, dtype: torch.dtype, seeds: range, off: str = "", *, itself: bool = False
) -> list[int]:
    function, reference, count = WRITTEN[name]
    function = functools.partial(function, off=off) if off else function
    how = {} if itself else {"reference": reference}
    return [
        s
        for s in seeds
        if verdict_of(function, arguments(s, count, dtype), **how) not in ("rounding", "exact")
    ]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("itself", [False, True])
@pytest.mark.parametrize("dtype", HALF, ids=name_of)
@pytest.mark.parametrize("name", WRITTEN)
def test_healthy_formulas_are_not_accused(name: str, dtype: torch.dtype, itself: bool) -> None:
    assert accused(name, dtype, range(5), itself=itself) == []


@pytest.mark.one_in(8)
@pytest.mark.parametrize("dtype", HALF, ids=name_of)
@pytest.mark.parametrize(("name", "off"), PLANTED)
def test_a_step_that_is_off_is_noticed(name: str, off: str, dtype: torch.dtype) -> None:
    assert accused(name, dtype, range(5), off) == list(range(5))


@pytest.mark.nightly
@pytest.mark.parametrize("dtype", HALF, ids=name_of)
@pytest.mark.parametrize("name", WRITTEN)
def test_200_healthy_formulas_are_not_accused(name: str, dtype: torch.dtype) -> None:
    assert accused(name, dtype, range(200)) == []


@pytest.mark.nightly
@pytest.mark.parametrize("dtype", HALF, ids=name_of)
@pytest.mark.parametrize(("name", "off"), PLANTED)
def test_200_steps_that_are_off_are_noticed(name: str, off: str, dtype: torch.dtype) -> None:
    assert accused(name, dtype, range(200), off) == list(range(200))


def attention(q: Any, k: Any, v: Any) -> Any:
    return softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])) @ v


def variance(x: Any) -> Any:
    centered = x - x.mean(-1, keepdim=True)
    return (centered * centered).sum(-1) / (x.shape[-1] - 1)


def in_place(x: Any, weight: Any) -> Any:
    y = x.clone()
    y.mul_(weight).add_(1.5)
    y[..., 1:] += y[..., :-1].exp()
    return y.div_(3.0)


def widened(x: Any, weight: Any) -> Any:
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def log_softmax(x: Any) -> Any:
    shifted = x - x.amax(-1, keepdim=True)
    return shifted - shifted.exp().sum(-1, keepdim=True).log()


def cosine(a: Any, b: Any) -> Any:
    return (a * b).sum(-1) / ((a * a).sum(-1).sqrt() * (b * b).sum(-1).sqrt())


def logsumexp(x: Any) -> Any:
    return (x - x.amax(-1, keepdim=True)).exp().sum(-1).log() + x.amax(-1)


def group_norm(x: Any, weight: Any, bias: Any) -> Any:
    return layer_norm(x.reshape(2, 4, -1), weight, bias)


def swiglu(x: Any, w: Any, v: Any) -> Any:
    return x @ w * torch.sigmoid(x @ w) * (x @ v)


OTHERS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "gelu": (gelu, [(5, 90)]),
    "log_softmax": (log_softmax, [(5, 90)]),
    "variance": (variance, [(7, 300)]),
    "attention": (attention, [(2, 9, 16), (2, 20, 16), (2, 20, 16)]),
    "linear": (lambda x, w, b: x @ w.T + b, [(9, 300), (40, 300), (40,)]),
    "cosine": (cosine, [(9, 65), (9, 65)]),
    "logsumexp": (logsumexp, [(40, 65)]),
    "group_norm": (group_norm, [(2, 8, 30), (60,), (60,)]),
    "swiglu": (swiglu, [(6, 64), (64, 96), (64, 96)]),
    "in place": (in_place, [(6, 64), (64,)]),
    "widened": (widened, [(6, 300), (300,)]),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", [*HALF, torch.float32], ids=name_of)
@pytest.mark.parametrize("name", OTHERS)
def test_other_formulas_and_their_gradients(name: str, dtype: torch.dtype) -> None:
    function, shapes = OTHERS[name]
    random = torch.Generator().manual_seed(len(name))
    args = [torch.randn(*shape, generator=random).to(dtype) for shape in shapes]
    results = consistency.assert_consistent(function, *args, directions=("forward", "backward"))
    assert {str(result.verdict) for result in results} <= {"rounding", "exact"}
    assert len(results) == 2


def test_the_sentence_names_the_formula() -> None:
    with pytest.raises(
        consistency.Divergence,
        match=r"in float64, it is off from its reference by .* times what its roundings explain",
    ):
        consistency.assert_consistent(
            functools.partial(rms_norm, off="mean"),
            *arguments(1, 2, torch.bfloat16),
            reference=WRITTEN["rms_norm"][1],
        )


def test_a_fault_that_float64_does_not_have() -> None:
    def worse(x: Any, weight: Any) -> Any:
        return rms_norm(x, weight, off="" if x.dtype == torch.float64 else "rsqrt")

    assert verdict_of(worse, arguments(3, 2, torch.float16)) == "divergent"
    assert verdict_of(worse, arguments(3, 2, torch.bfloat16)) == "divergent"


def test_a_faulty_backend() -> None:
    class Faulty(consistency.Backend):
        name = "faulty"

        def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
            return operator(*args, **kwargs) * OFF

    args = arguments(3, 1, torch.bfloat16)
    assert verdict_of(softmax, args, backends=[Faulty()]) in ("divergent", "reduced-precision")


def steps_of(function: Callable[..., Any], *args: torch.Tensor) -> RecordedSteps:
    operator = Operator(name="mine", family="user", sample=lambda d: call(), function=function)
    return RecordedSteps(
        operator, prepare(case_of("mine", name_of(args[0].dtype), args, {})), "forward"
    )


def test_what_rounds_and_what_only_moves() -> None:
    found = steps_of(softmax, torch.randn(4, 50, generator=torch.Generator().manual_seed(0)).half())
    assert [(step.name, step.rounds) for step in found.steps] == [
        ("amax", False), ("sub", True), ("exp", True), ("sum", True), ("div", True),
    ]  # fmt: skip
    assert found.rounding == 4


def test_steps_again_in_float64() -> None:
    x, weight = torch.randn(6, 64).half(), torch.randn(64).half()
    found = steps_of(in_place, x, weight)
    materials = prepare(case_of("mine", "float16", (x, weight), {}))
    (wide,) = found.replay(materials.build("float64"))
    assert wide is not None
    torch.testing.assert_close(wide, in_place(x.double(), weight.double()), rtol=1e-14, atol=1e-14)


def test_a_function_that_is_called_like_one_of_torchs() -> None:
    """rms_norm adds an epsilon that belongs to the dtype, which a user's function of that name does
    not know."""

    def mine(x: Any, shape: Any) -> Any:
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-7)

    x = (
        arguments(1, 1, torch.float16)[0] * 16
    )  # beside such numbers torch 2.4.1's epsilon, that of float16, is small as well
    for mine.__qualname__ in ("rms_norm", "mine"):
        assert verdict_of(mine, [x, x.shape[-1:]]) == "rounding"  # type: ignore[list-item]
        assert verdict_of(mine, [x, x.shape[-1:]], reference=F.rms_norm) == "rounding"  # type: ignore[list-item]


def test_random_numbers_cannot_be_followed() -> None:
    with pytest.raises(UntraceableError, match="draws random numbers"):
        steps_of(lambda x: F.dropout(x, 0.5, True) * 3, torch.ones(50).half())


def test_what_passes_through_numpy_is_judged_as_before() -> None:
    def through_numpy(x: Any) -> Any:
        return torch.from_numpy(x.numpy() * 2.0) + x / 3.0

    (result,) = consistency.assert_consistent(through_numpy, torch.randn(50).half())
    assert result.comparison is not None
    assert result.comparison.outputs[0].of_steps is None


def test_ulp() -> None:
    numbers = torch.tensor([1.0, 1.99, -2.0, 0.0, 1e-9], dtype=torch.float64)
    assert ulp(numbers, dtypes.FORMATS["float16"]).tolist() == [
        2.0**-10,
        2.0**-10,
        2.0**-9,
        2.0**-24,
        2.0**-24,
    ]


def test_the_same_numbers_every_time() -> None:
    args = arguments(2, 3, torch.bfloat16)
    one, other = (consistency.assert_consistent(layer_norm, *args)[0].metrics for _ in range(2))
    assert one == other


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_explain_judges_a_formula_by_its_own_steps(dtype: str) -> None:
    """x @ W.T + b rounds twice, which its RMS error shows: once that was called divergent at 0.0096
    × budget."""
    found = CliRunner().invoke(
        cli, ["explain", "linear", "x @ W.T + b", "--dtype", dtype, "--shape", "16,64,32"]
    )
    assert found.exit_code in (0, 3), found.output
    assert "budget from float64: rounding" in found.output
    assert "divergent" not in found.output


def test_explain_of_another_formula_shows_no_small_number() -> None:
    found = CliRunner().invoke(
        cli,
        ["explain", "linear", "x @ W.T * 1.004 + b", "--dtype", "bfloat16", "--shape", "16,64,32"],
    )
    assert found.exit_code == 1
    assert (
        "divergent: each element by itself might be rounding, but where nothing is rounded, in "
        "float64"
    ) in found.output
    assert "× budget from" not in found.output.partition("divergent")[2]


def test_gradients_that_are_zero_without_memory_are_recorded() -> None:
    """Reading autograd's own zeros, here those of a sign, ended the process."""
    operator = second(get("special.i0e"))
    arguments = (torch.linspace(-2.0, 2.0, 5), torch.ones(5))
    materials = prepare(case_of(operator.name, "float32", arguments, {}, cotangent=100))
    steps = RecordedSteps(operator, materials, "backward")
    results = steps.replay(materials.build("float64"))
    assert all(result is not None and result.isfinite().all() for result in results)
