"""Faulty backends are caught, with the right verdict; healthy ones that compute in another way are
left in peace.

All through the public interface, as a stranger would: a subclass of ``consistency.Backend`` that
overrides ``call``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import consistency
from consistency.core.model import Result
from consistency.engine import engine, unit_runner

pytestmark = pytest.mark.usefixtures("drawn_once")

Run = Callable[[Sequence[Any], Mapping[str, Any]], Any]
Deed = Callable[[str, Run, list[Any], dict[str, Any]], Any]


class Other(consistency.Backend):
    """The CPU, with a ``deed(operator, run, args, kwargs)`` of its own around torch's result."""

    def __init__(self, name: str, deed: Deed) -> None:
        self.name, self.deed = name, deed

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        return self.deed(
            operator.name, functools.partial(super().call, operator), list(args), dict(kwargs)
        )


# Healthy: other ways to the same result.


def plain(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return run(args, kwargs)


def in_float64(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    wide = [a.double() if isinstance(a, Tensor) else a for a in args]
    return run(wide, kwargs).to(kwargs.get("dtype") or args[0].dtype)


def summed_dims(args: list[Any], kwargs: dict[str, Any]) -> list[int]:
    dims = kwargs.get("dim", args[1] if len(args) > 1 else None)
    return [dims] if isinstance(dims, int) else list(dims or range(args[0].ndim))


def in_another_order(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The terms of every sum the other way round."""
    x, *rest = args
    match operator:
        case "matmul":
            return run([x.flip(-1), rest[0].flip(-2 if rest[0].ndim > 1 else -1)], kwargs)
        case "sum":
            return run([x.flip(summed_dims(args, kwargs)) if x.ndim else x, *rest], kwargs)
        case "softmax":
            return (
                run([x.flip(rest[0]), *rest], kwargs).flip(rest[0]) if x.ndim else run(args, kwargs)
            )
        case "nn.functional.layer_norm":
            dims = [-1 - i for i in range(len(rest[0]))]
            affine = [t if t is None else t.flip(dims) for t in rest[1:]]
            return run([x.flip(dims), rest[0], *affine], kwargs).flip(dims)
        case "nn.functional.conv2d" if kwargs.get("groups", 1) == 1:
            return run([x.flip(-3), rest[0].flip(1), *rest[1:]], kwargs)
    return run(args, kwargs)


def one_after_another(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Sums without blocks or trees, as a simple loop computes them."""
    if operator == "matmul" and args[0].shape[-1]:
        a, b = (
            (args[0].unsqueeze(0) if args[0].ndim == 1 else args[0]),
            (args[1].unsqueeze(1) if args[1].ndim == 1 else args[1]),
        )
        total = (a.unsqueeze(-1) * b.unsqueeze(-3)).cumsum(-2)[..., -1, :]
        total = total.squeeze(-1) if args[1].ndim == 1 else total
        return total.squeeze(-1 if args[1].ndim == 1 else -2) if args[0].ndim == 1 else total
    if operator == "sum" and len(args) == 1 and not kwargs and args[0].numel():
        return args[0].reshape(-1).cumsum(0)[-1]
    return run(args, kwargs)


# Faulty.


class Straight(torch.autograd.Function):
    """Other numbers going forward, the same gradient going back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        return y.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


def ten_bits(x: Any) -> Any:
    """Rounded to the ten bits that TF32 keeps."""
    if not isinstance(x, Tensor) or x.dtype != torch.float32:
        return x
    bits = x.detach().contiguous().view(torch.int32)
    rounded = ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)
    return Straight.apply(x, torch.where(x.isfinite(), rounded, x))


def toward_zero(x: Tensor) -> Tensor:
    """A float64 tensor as float32, truncated."""
    single = x.float()
    return torch.where(
        single.double().abs() > x.abs(), single.nextafter(torch.zeros_like(single)), single
    )


def truncating(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Every partial sum is truncated rather than rounded."""
    if operator == "matmul":
        a, b = args[0].double(), args[1].double()
        a, b = (a.unsqueeze(0) if a.ndim == 1 else a), (b.unsqueeze(1) if b.ndim == 1 else b)
        terms = (a.unsqueeze(-1) * b.unsqueeze(-3)).movedim(-2, 0)
    elif operator == "sum" and args[0].ndim and "dtype" not in kwargs:
        dims = summed_dims(args, kwargs)
        terms = args[0].double().movedim(dims, list(range(len(dims)))).flatten(0, len(dims) - 1)
    else:
        return run(args, kwargs)
    total = torch.zeros(terms.shape[1:])
    for term in terms.detach():
        total = toward_zero(total.double() + term)
    result = run(args, kwargs)
    return Straight.apply(result, total.reshape(result.shape).to(result.dtype))


def one_element_off(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    result = run(args, kwargs)
    factor = torch.ones(result.shape)
    factor.view(-1)[result.numel() // 2 : result.numel() // 2 + 1] = 1.001
    return result * factor


def without_offset(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return run(
        [a.as_strided(a.shape, a.stride(), 0) if isinstance(a, Tensor) else a for a in args], kwargs
    )


def without_strides(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Every tensor read as if it were contiguous, where its storage is long enough."""

    def read(a: Any) -> Any:
        if (
            not isinstance(a, Tensor)
            or a.storage_offset() + a.numel() > a.untyped_storage().nbytes() // a.element_size()
        ):
            return a
        return a.as_strided(
            a.shape, torch.empty(a.shape, device="meta").stride(), a.storage_offset()
        )

    return run([read(a) for a in args], kwargs)


def writing_to_its_input(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    result = run(args, kwargs).clone()
    if args[0].numel():
        first = args[0].detach().as_strided((1,), (1,), args[0].storage_offset())
        first.fill_(8.0 if first == 7.0 else 7.0)
    return result


def without_nan(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    result = run(args, kwargs)
    return torch.where(result.isnan(), torch.zeros_like(result), result)


def refusing(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    raise RuntimeError("device lost its way")


class ZeroGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return torch.zeros_like(gradients[0])


def after(change: Callable[[Tensor], Any]) -> Deed:
    """A fault in what comes back."""
    return lambda operator, run, args, kwargs: change(run(args, kwargs))


HEALTHY: dict[str, Deed] = {
    "plain": plain,
    "in float64": in_float64,
    "in another order": in_another_order,
    "one after another": one_after_another,
}
FAULTY: dict[str, Deed] = {
    "TF32 inputs": lambda operator, run, args, kwargs: run([ten_bits(a) for a in args], kwargs),
    "truncating": truncating,
    "one element off": one_element_off,
    "without offset": without_offset,
    "without strides": without_strides,
    "writing to its input": writing_to_its_input,
    "wrong shape": after(lambda result: result.unsqueeze(0)),
    "wrong dtype": after(
        lambda result: result.to(torch.float64 if result.dtype == torch.float32 else torch.float32)
    ),
    "nothing": after(lambda result: None),
    "raising": refusing,
    "without NaN": without_nan,
    "zero gradient": after(ZeroGradient.apply),
    "no gradient": after(lambda result: result.detach()),
}

PLAIN = ("matmul", "sum", "softmax", "nn.functional.layer_norm", "exp")
OPERATORS = (*PLAIN, pytest.param("nn.functional.conv2d", marks=pytest.mark.nightly))
# What the CPU is known for (squares that leave the format) excuses these backends, too.
DECIDED = {"exact", "rounding", "inconclusive", "known"}
Results = dict[str, list[Result]]


@pytest.fixture(scope="module", autouse=True)
def _verdicts_only() -> Iterator[None]:
    """Shrinking, causes and work-arounds have tests of their own; here every backend fails and each
    would take its seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unit_runner, "MINIMIZED_PER_UNIT", 0)
        patch.setattr(engine.DiagnosisBudget.__init__, "__defaults__", (0.0, 0, 0, 90.0))
        yield


def judged(
    operator: str, deeds: Mapping[str, Deed], dtypes: Sequence[str] = ("float32",), **options: Any
) -> Results:
    """The results of one operator by backend."""
    backends = [Other(name, deed) for name, deed in deeds.items()]
    found: Results = {name: [] for name in deeds}
    for result in consistency.run(
        [operator], backends, dtypes, shipped=False, **{"examples": 20} | options
    ).results:
        found[result.backend].append(result)
    return found


@pytest.fixture(scope="module")
def faulty() -> Callable[[str], Results]:
    # Sums forgive many a misread view: it takes more of them.
    return functools.cache(
        lambda operator: judged(operator, FAULTY, examples=40 if operator == "sum" else 20)
    )


def verdicts(results: Sequence[Result], direction: str) -> set[str]:
    return {result.verdict.value for result in results if result.direction == direction}


def told(results: Sequence[Result]) -> str:
    return "\n".join(
        f"{r.direction} {r.verdict} {r.explanation} {r.case.line}"
        for r in results
        if r.verdict.fails
    )


@pytest.mark.one_in(3)
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_healthy_backends_are_left_in_peace(operator: str, dtype: str) -> None:
    for name, results in judged(operator, HEALTHY, [dtype]).items():
        assert not told(results), f"{name}: {told(results)}"
        assert len([r for r in results if r.verdict.passes]) > len(results) / 2, name


@pytest.mark.parametrize("operator", PLAIN)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_healthy_backends_in_half_precision(operator: str, dtype: str) -> None:
    """Accumulated wider and rounded once. (Some versions of torch multiply in half precision
    itself, and are told so.)"""
    found = judged(operator, {"in float64": in_float64}, [dtype])["in float64"]
    assert not told(found)


@pytest.mark.one_in(16)
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("fault", ["TF32 inputs", "one element off"])
def test_wrong_numbers_are_divergent(
    operator: str, fault: str, faulty: Callable[[str], Results]
) -> None:
    for direction in ("forward", "backward"):
        wrong = verdicts(faulty(operator)[fault], direction) - DECIDED
        if (operator, fault, direction) != (
            "sum",
            "TF32 inputs",
            "backward",
        ):  # a gradient that does not depend on the input
            assert {"divergent", "reduced-precision"} & wrong
        # Beside the threshold of exp a small error makes an infinity; an element may be one that
        # half an ulp in the inputs changes as much.
        assert wrong <= {"divergent", "special-values", "ill-conditioned"} | (
            {"reduced-precision"} if fault == "TF32 inputs" else set()
        )


@pytest.mark.one_in(8)
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("fault", ["without offset", "without strides"])
def test_a_misread_view_is_divergent(
    operator: str, fault: str, faulty: Callable[[str], Results]
) -> None:
    """In one direction or the other: a full sum does not care in which order it reads."""
    wrong = (
        verdicts(faulty(operator)[fault], "forward") | verdicts(faulty(operator)[fault], "backward")
    ) - DECIDED
    assert "divergent" in wrong
    # A result that keeps other strides than torch documents is told as that.
    assert wrong <= {"divergent", "special-values", "structure"}


@pytest.mark.parametrize("operator", ["matmul", "sum"])
def test_truncation_shows_in_the_statistics_or_the_budget(
    operator: str, faulty: Callable[[str], Results]
) -> None:
    assert verdicts(faulty(operator)["truncating"], "forward") - DECIDED == {"divergent"}


@pytest.mark.one_in(12)
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(("fault", "verdict", "words"), [
    ("writing to its input", "structure",
        "argument 0 was modified although the operator does not write to it"),
    ("wrong shape", "structure", "out/0 has shape [1, "),
    ("wrong dtype", "structure", "out/0 has dtype float64 instead of float32"),
    ("nothing", "structure", "out/0 is None instead of a tensor of shape ["),
    ("raising", "error", "raised where the reference did not: RuntimeError: device lost its way"),
])  # fmt: skip
def test_wrong_structure_is_named(
    operator: str, fault: str, verdict: str, words: str, faulty: Callable[[str], Results]
) -> None:
    forward = [result for result in faulty(operator)[fault] if result.direction == "forward"]
    failing = [result for result in forward if result.verdict.fails]
    assert {result.verdict.value for result in failing} == {verdict}
    assert any(words in result.explanation for result in failing)
    if fault != "writing to its input":  # which an empty or blank input survives
        assert len(failing) == len(forward)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("fault", ["zero gradient", "no gradient"])
def test_wrong_gradients_are_seen_going_back_only(
    operator: str, fault: str, faulty: Callable[[str], Results]
) -> None:
    found = faulty(operator)[fault]
    assert verdicts(found, "forward") <= DECIDED
    wrong = verdicts(found, "backward") - DECIDED
    if fault == "no gradient":
        assert wrong == {"structure"}
        assert any(
            "grad/0 is None instead of a tensor of shape" in result.explanation for result in found
        )
    else:
        assert "divergent" in wrong
        assert wrong <= {"divergent", "special-values"}


def test_dropped_nan_are_special_values() -> None:
    failing: list[Result] = []
    for operator in ("exp", "sqrt", "add", "softmax"):
        found = judged(operator, {"without NaN": without_nan}, directions=["forward"])[
            "without NaN"
        ]
        failing += [result for result in found if result.verdict.fails]
    assert {result.verdict.value for result in failing} == {"special-values"}
    assert any(result.explanation.startswith("NaN differs in ") for result in failing)


def lost_write(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Works on a copy, and returns it."""
    return run([args[0].clone(), *args[1:]], kwargs)


def write_beside_the_view(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Also zeroes the element behind the view, where there is one."""
    result = run(args, kwargs)
    behind = (
        args[0].storage_offset()
        + sum((n - 1) * s for n, s in zip(args[0].shape, args[0].stride(), strict=True))
        + 1
    )
    if args[0].numel() and behind < args[0].untyped_storage().nbytes() // args[0].element_size():
        args[0].as_strided((1,), (1,), behind).fill_(77.0)
    return result


@pytest.mark.parametrize("operator", ["add_", "copy_", "fill_", "index_fill_"])
def test_writes_in_place_are_compared_where_they_should_be(operator: str) -> None:
    found = judged(
        operator,
        {"plain": plain, "lost write": lost_write, "beside": write_beside_the_view},
        directions=["forward"],
    )
    assert verdicts(found["plain"], "forward") <= DECIDED
    # Where the numbers are right by chance, another tensor than the argument is returned.
    by_numbers = {"divergent", "special-values"}
    assert verdicts(found["lost write"], "forward") - DECIDED <= by_numbers | {"structure"}
    assert "divergent" in verdicts(found["lost write"], "forward")
    assert "divergent" in verdicts(found["beside"], "forward")
    failing = [result for result in found["lost write"] if result.verdict.value in by_numbers]
    assert {result.output for result in failing} == {"arg/0"}


def test_a_wrong_answer_of_python_is_divergent() -> None:
    """Operators such as ``equal`` return no tensor."""
    found = judged(
        "equal",
        {"contrary": after(lambda result: not result), "plain": plain},
        directions=["forward"],
    )
    assert verdicts(found["contrary"], "forward") == {"divergent"}
    assert verdicts(found["plain"], "forward") <= DECIDED


def test_one_of_many_outputs_is_enough() -> None:
    def second_wrong(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
        values, indices = run(args, kwargs)
        return values, indices + 1

    found = judged("sort", {"second": second_wrong}, directions=["forward"])["second"]
    assert any(result.verdict.fails for result in found)


def test_what_a_backend_refuses_is_not_tested() -> None:
    def refused(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
        raise consistency.Unsupported("no such kernel")

    found = judged("exp", {"refusing": refused})["refusing"]
    assert {(result.verdict.value, result.explanation) for result in found} == {
        ("unsupported", "Unsupported: no such kernel")
    }
    assert not any(result.verdict.tested for result in found)
