"""Complex numbers: recipes with two parts, S of moduli, planted faults that are noticed and other
ways to compute that are not."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import consistency
from consistency import operators
from consistency.core import dtypes, recipe
from consistency.core.model import Case, Result
from consistency.core.recipe import TensorRecipe, tensors
from consistency.diagnose import evaluation
from consistency.errors import RecipeError
from consistency.generate import search
from consistency.generate.fill import fill
from consistency.generate.materialize import prepare
from consistency.judge import tolerances
from consistency.reference import Reference, quiet
from consistency.reference.high_precision import refine
from tests.support.commands import command

RULES = tolerances.load()
Function = Callable[..., Any]
TAKEN = [o for o in operators.registry().values() if "complex64" in o.dtypes]


class Other(consistency.Backend):
    """The CPU with another function in place of torch's."""

    name = "other"

    def __init__(self, function: Function) -> None:
        self.function = function

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        return self.function(functools.partial(operator), *args, **kwargs)


@functools.cache
def drawn(name: str, dtype: str, examples: int) -> tuple[Case, ...]:
    return tuple(search.batch(operators.get(name), dtype, examples))


def judged(
    name: str,
    function: Function,
    direction: str = "forward",
    examples: int = 40,
    dtype: str = "complex64",
) -> list[Result]:
    return [
        result
        for case in drawn(name, dtype, examples)
        for result in evaluation.evaluate(case, [Other(function)], RULES, directions=(direction,))
    ]


def parts(z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return z.real, z.imag


def as_complex(x: Any) -> torch.Tensor:
    return (
        x
        if isinstance(x, torch.Tensor) and x.is_complex()
        else torch.as_tensor(x).to(torch.complex64)
    )


# Recipes


def test_parts_come_from_two_windows() -> None:
    z = fill(6, "complex64", ("uniform", -1.0, 1.0), 100)
    assert z.dtype == np.complex64
    assert (z.real == fill(6, "float32", ("uniform", -1.0, 1.0), 100)).all()
    assert (z.imag == fill(6, "float32", ("uniform", -1.0, 1.0), 94)).all()
    wide = fill(6, "complex128", ("uniform", -1.0, 1.0), 100)
    assert (wide.astype(np.complex64) == z).all()
    assert (wide.real != z.real).any()


def test_towards_the_start_of_the_tape_imaginary_parts_vanish_first() -> None:
    z = fill(4, "complex64", ("normal", 0.0, 1.0), 4)
    assert (z.imag == 0).all()
    assert (z.real != 0).all()
    assert fill(4, "complex64", ("normal", 0.0, 1.0), 1).tolist()[:3] == [0j, 0j, 0j]


def test_special_values_in_either_part() -> None:
    z = fill(3, "complex64", ("uniform", -1.0, 1.0), 50, ((0, "inf"), (5, "nan"), (4, "-0")))
    assert z.real[0] == math.inf
    assert np.isnan(z.imag[2])
    assert np.signbit(z.imag[1])
    assert z.imag[1] == 0
    with pytest.raises(RecipeError, match="position 6 of 3 complex numbers"):
        fill(3, "complex64", ("uniform", -1.0, 1.0), 50, ((6, "nan"),))


def test_definite_matrices_are_hermitian() -> None:
    a = fill(2 * 36, "complex64", ("positive-definite", 6), 900).reshape(2, 6, 6)
    assert (a == a.conj().swapaxes(-1, -2)).all()
    assert np.abs(a.imag).max() > 0
    assert np.linalg.eigvalsh(a.astype(np.complex128)).min() >= 6 / 8 - 1e-9


def test_numbers_and_conjugates_travel_in_json() -> None:
    x = TensorRecipe((2, 3), "complex64", stop=40, view=(("transpose", 0, 1), ("conj",)))
    case = Case("add", "complex64", (x, x), {"alpha": complex(0.5, -math.inf)})
    again = Case.from_line(case.line)
    assert again == case
    assert again.line == case.line
    (first, _) = prepare(case).build().tensors
    assert first.is_conj()
    assert first.shape == (3, 2)
    for bad in ([1], [1, "x", 2], "1j", [None, 1]):
        with pytest.raises(RecipeError):
            recipe.decode({"complex": bad})


def test_conversion_keeps_numbers_and_moduli_are_real() -> None:
    x = TensorRecipe((5,), "complex64", stop=40)
    materials = prepare(Case("exp", "complex64", (x,)))
    narrow, wide = materials.build().tensors[0], materials.build("float64").tensors[0]
    assert wide.dtype == torch.complex128
    assert (narrow.to(torch.complex128) == wide).all()
    assert materials.build("float32").tensors[0].dtype == torch.complex64
    moduli = materials.build("float64", adjust=lambda base, position: base.abs()).tensors[0]
    assert moduli.dtype == torch.float64
    assert materials.build(gradients=True).tensors[0].requires_grad


def test_a_fault_shrinks_to_a_real_number() -> None:
    def wrong(case: Case) -> bool:
        z = prepare(case).build().tensors[0]
        return bool((z.real != 0).any())

    found = search.smallest(operators.get("exp"), "complex64", wrong)
    assert found is not None
    z = prepare(found).build().tensors[0].resolve_conj()
    assert z.numel() <= 2
    assert (z.imag == 0).all()


# The reference and S


def test_the_reference_is_complex128_and_checked_beyond() -> None:
    x = TensorRecipe((50,), "complex128", stop=400)
    with quiet():
        reference = Reference(
            operators.get("exp"), prepare(Case("exp", "complex128", (x,))), "forward"
        )
        assert not reference.independent
        refine(reference)
    assert reference.outputs[0].dtype == "complex128"
    if np.finfo(np.longdouble).nmant > 52:
        assert reference.independent
        tail = reference.tails[0]
        assert tail is not None
        assert tail.is_complex()
        assert 0 < float(tail.abs().max()) < 1e-15


@pytest.mark.parametrize(("name", "size"), [
    ("mul", lambda a, b: a.abs() * b.abs()),
    ("matmul", lambda a, b: a.abs() @ b.abs()),
    ("vdot", lambda a, b: a.abs() @ b.abs()),
])  # fmt: skip
def test_s_is_made_of_moduli(name: str, size: Function) -> None:
    shape = (7,) if name == "vdot" else (7, 7)
    args = tuple(TensorRecipe(shape, "complex64", stop=stop) for stop in (300, 500))
    with quiet():
        reference = Reference(
            operators.get(name), prepare(Case(name, "complex64", args)), "forward"
        )
        (s,) = reference.magnitudes
    assert isinstance(s, torch.Tensor)
    assert not s.is_complex()
    torch.testing.assert_close(s, size(*reference.arguments.tensors))


def test_what_a_product_makes_of_infinities_is_not_judged_but_that_it_does_is() -> None:
    x = TensorRecipe((40,), "complex64", stop=400, special=((3, "inf"), (47, "nan")))
    case = Case("mul", "complex64", (x, TensorRecipe((40,), "complex64", stop=900)), {})

    def otherwise(run: Function, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = run(x, y)
        return torch.where(torch.isfinite(z), z, torch.full_like(z, complex(math.nan, math.inf)))

    def hiding(run: Function, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = run(x, y)
        return torch.where(torch.isfinite(z), z, torch.ones_like(z))

    verdicts = [
        evaluation.evaluate(case, [Other(f)], RULES, directions=("forward",))[0].verdict.value
        for f in (otherwise, hiding)
    ]
    assert verdicts == ["rounding", "special-values"]


def test_rules_of_complex_numbers_add_to_those_of_their_parts() -> None:
    real, plane = (RULES.rule("exp", dtype, family="unary") for dtype in ("float32", "complex64"))
    assert plane.c == real.c
    assert plane.lam > real.lam == 0
    assert RULES.rule("exp", "complex128", family="unary").lam == plane.lam


# Faults


def unconjugated(run: Function, a: torch.Tensor, b: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    return (a * b).sum(kwargs.get("dim", -1)) if a.ndim else run(a, b, **kwargs)


def conjugation_not_carried_out(run: Function, *args: Any, **kwargs: Any) -> Any:
    return run(
        *(
            a.conj().resolve_conj() if isinstance(a, torch.Tensor) and a.is_conj() else a
            for a in args
        ),
        **kwargs,
    )


def imaginary_part_dropped(run: Function, *args: Any, **kwargs: Any) -> torch.Tensor:
    z = run(*args, **kwargs)
    return torch.complex(z.real, torch.zeros_like(z.real))


def swapped(run: Function, *args: Any, **kwargs: Any) -> torch.Tensor:
    z = run(*args, **kwargs)
    return torch.complex(z.imag, z.real)


def conjugated(run: Function, *args: Any, **kwargs: Any) -> torch.Tensor:
    return run(*args, **kwargs).conj().resolve_conj()  # type: ignore[no-any-return]


def wrong_branch(run: Function, x: torch.Tensor) -> torch.Tensor:
    z = run(x)
    return torch.where((x.imag < 0) & (x.real < 0), -z, z)


def one_turn_off(run: Function, x: torch.Tensor) -> torch.Tensor:
    z = run(x)
    return torch.where(x.imag < 0, z + 2j * math.pi, z)


def tf32(x: torch.Tensor) -> torch.Tensor:
    bits = torch.view_as_real(x.resolve_conj()).contiguous().view(torch.int32)
    return torch.view_as_complex(((bits + 0x1000) & ~0x1FFF).view(torch.float32))


def short_inputs(run: Function, *args: Any, **kwargs: Any) -> Any:
    return run(
        *(tf32(a) if isinstance(a, torch.Tensor) and a.is_complex() else a for a in args), **kwargs
    )


def off_by_16_ulp(part: complex) -> Function:
    """In the middle element, of the modulus' own ulp."""

    def fault(run: Function, *args: Any, **kwargs: Any) -> torch.Tensor:
        z = run(*args, **kwargs).clone().reshape(-1)
        if z.numel():
            ulp = 2.0 ** (math.frexp(abs(z[z.numel() // 2].item()))[1] - 24)
            z[z.numel() // 2] += part * 16 * ulp
        return z.reshape(run(*args, **kwargs).shape)

    return fault


def one_part_missing(
    run: Function, a: torch.Tensor, b: torch.Tensor, **kwargs: Any
) -> torch.Tensor:
    """(a + ib)(c + id) without bd."""
    z = run(a, b, **kwargs)
    return torch.complex(run(a.real, b.real, **kwargs), z.imag)


FAULTS = [
    ("vdot", unconjugated), ("linalg.vecdot", unconjugated), ("matmul",
    conjugation_not_carried_out),
    ("mul", conjugation_not_carried_out), ("exp", imaginary_part_dropped), ("sum",
    imaginary_part_dropped), ("cumsum", swapped),
    ("mul", swapped), ("reciprocal", conjugated), ("sqrt", wrong_branch), ("log", one_turn_off),
    ("sqrt", conjugated),
    ("matmul", short_inputs), ("nn.functional.conv1d", short_inputs), ("matmul", one_part_missing),
    ("mm", one_part_missing),
    ("exp", off_by_16_ulp(1.0)), ("exp", off_by_16_ulp(1j)), ("mul", off_by_16_ulp(1j)), ("div",
    off_by_16_ulp(1.0)),
    ("sqrt", off_by_16_ulp(1.0)), ("sin", off_by_16_ulp(1j)), ("abs", lambda run,
    x: x.real.abs() + x.imag.abs()),
    ("angle", lambda run, x: torch.atan2(x.real, x.imag)), ("conj", lambda run, x: x.clone()),
    ("mH", lambda run, x: x.mT),
    ("linalg.inv", conjugated), ("linalg.det", conjugated), ("fft.fft", lambda run, x,
    **k: torch.fft.fft(x.conj(), **k)),
    ("linalg.eigh", lambda run, a, **k: (run(a, **k)[0], run(a, **k)[1].conj())),
    ("linalg.svd", lambda run, a, **k: (*run(a, **k)[:2], run(a, **k)[2].conj())),
    ("linalg.cholesky", conjugated), ("isnan", lambda run, x: x.real.isnan()),
    ("eq", lambda run, a, b: a.real == as_complex(b).real),
    ("view_as_real", lambda run, x: torch.view_as_real(x).flip(-1)), ("imag", lambda run,
    x: x.real), ("index_select", conjugated),
    ("linalg.vector_norm", lambda run, x, *a, **k: run(x.real, *a, **k)), ("prod", conjugated),
]  # fmt: skip


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("name", "fault"), FAULTS, ids=lambda value: value if isinstance(value, str) else value.__name__
)
def test_faults_are_noticed(name: str, fault: Function) -> None:
    results = judged(name, fault)
    failing = [result for result in results if result.verdict.fails]
    # Views that are conjugated, and negative numbers, are some of all; NaN are few.
    assert len(failing) >= (len(results) / 8 if name != "isnan" else 1), Counter(
        result.verdict.value for result in results
    )
    assert all(result.explanation for result in failing)


class Unconjugated(torch.autograd.Function):
    """A product whose gradient forgets the conjugation."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
        a, b = ctx.saved_tensors
        return g @ b.mT, a.mH @ g


def test_a_gradient_without_conjugation_is_noticed() -> None:
    results = judged("mm", lambda run, a, b: Unconjugated.apply(a, b), "backward")  # type: ignore[no-untyped-call]
    assert sum(result.verdict.value == "divergent" for result in results) > len(results) / 2


# Healthy


def of_four_products(
    run: Function, a: torch.Tensor, b: torch.Tensor, **kwargs: Any
) -> torch.Tensor:
    (a, b), (c, d) = parts(a), parts(b)
    return torch.complex(run(a, c) - run(b, d), run(a, d) + run(b, c))


def of_three_products(run: Function, a: Any, b: Any, **kwargs: Any) -> torch.Tensor:
    """Karatsuba's (or Gauss's): sound normwise, not in each part."""
    (a, b), (c, d) = parts(as_complex(a)), parts(as_complex(b))
    first, second, third = run(a, c), run(b, d), run(a + b, c + d)
    return torch.complex(first - second, third - first - second)


def in_double(run: Function, *args: Any, **kwargs: Any) -> Any:
    wide = [
        a.to(torch.complex128) if isinstance(a, torch.Tensor) and a.is_complex() else a
        for a in args
    ]
    found = run(*wide, **kwargs)
    return found.to(torch.complex64 if found.is_complex() else torch.float32)


def by_the_conjugate(run: Function, a: Any, b: Any) -> torch.Tensor:
    """a·conj(b)/|b|²."""
    a, b = as_complex(a), as_complex(b)
    return a * b.conj() / (b.real.square() + b.imag.square())


def backwards(run: Function, x: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    dims = kwargs.get("dim", list(range(x.ndim)))
    return run(x.flip(dims) if x.ndim else x, **kwargs)  # type: ignore[no-any-return]


def of_ordinary_numbers(formula: Callable[[torch.Tensor], torch.Tensor]) -> Function:
    """A formula of textbooks where no step of it leaves the format, and torch's own elsewhere."""

    def sound(run: Function, x: torch.Tensor) -> torch.Tensor:
        size = x.abs()
        return torch.where((size > 2.0**-30) & (size < 80.0), formula(x), run(x))

    return sound


HEALTHY = [
    ("mul", of_three_products), ("mul", in_double), ("matmul", of_three_products), ("matmul",
    of_four_products),
    ("matmul", in_double), ("mm", of_three_products), ("vdot", lambda run, a, b: run(b, a).conj()),
    ("div", by_the_conjugate),
    ("div", in_double), ("sum", backwards), ("sum", in_double), ("mean", in_double), ("exp",
    in_double),
    ("exp", of_ordinary_numbers(lambda x: torch.polar(x.real.exp(), x.imag))), ("sqrt", lambda run,
    x: torch.polar(x.abs().sqrt(), x.angle() / 2)),
    ("sin", lambda run, x: torch.complex(x.real.sin() * x.imag.double().cosh(),
    x.real.cos() * x.imag.double().sinh()).to(x.dtype)),
    ("abs", of_ordinary_numbers(lambda x: (x.real.square() + x.imag.square()).sqrt())),
    ("square", lambda run, x: x * x),
    ("reciprocal", of_ordinary_numbers(lambda x: x.conj() / x.abs().square())),
    ("linalg.det", in_double),
    ("linalg.inv", lambda run, a: torch.linalg.solve(a, torch.eye(a.shape[-1],
    dtype=a.dtype).expand_as(a))),
    ("linalg.svd", lambda run, a, **k: [run(a, **k)[0] * 1j, run(a, **k)[1], run(a, **k)[2] * -1j]),
    ("linalg.eigh", lambda run, a, **k: (run(a, **k)[0], run(a, **k)[1] * complex(0.6, 0.8))),
    ("fft.fft", in_double),
]  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("name", "sound"),
    HEALTHY,
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_other_ways_are_left_in_peace(name: str, sound: Function) -> None:
    results = judged(name, sound, examples=60)
    assert [result.explanation for result in results if result.verdict.fails] == []
    assert sum(result.verdict.passes for result in results) > len(results) / 2


# All operators that take them


def test_many_operators_take_complex_numbers() -> None:
    assert len(TAKEN) >= 150
    assert {"complex64", "complex128"} <= set(operators.get("linalg.solve").dtypes)
    assert not any(
        "complex64" in operators.get(name).dtypes
        for name in ("maximum", "sort", "floor", "clamp", "relu_")
    )


@pytest.mark.one_in(6)
@pytest.mark.parametrize("operator", TAKEN, ids=lambda operator: operator.name)
def test_the_cpu_is_within_its_budget(operator: consistency.Operator) -> None:
    if operator.callable is None:
        pytest.skip(f"torch {torch.__version__} has no {operator.name}")
    if torch.__version__.startswith("2.4.") and operator.name in ("asin", "atan"):
        pytest.skip("loses its digits near 0 (docs/findings.md)")
    found: Counter[str] = Counter()
    for case in drawn(operator.name, "complex64", 6):
        assert (
            any(t.dtype in dtypes.PARTS for t in tensors([*case.args, *case.kwargs.values()]))
            or operator.family == "creation"
        )
        for result in evaluation.evaluate(
            case, consistency.backends.resolve_all(["cpu", "numpy"]), RULES
        ):
            assert not result.verdict.fails, f"{result.explanation} {case.line}"
            found[result.verdict.group] += result.backend == "cpu"
    assert found["passed"] >= found["not tested"], (
        found
    )  # torch does not differentiate some of them


# Commands


def test_the_command_runs_them_and_says_which_there_are() -> None:
    answer = command("run matmul exp --dtype complex64 --backend cpu --backend numpy --examples 4")
    assert answer.exit_code == 0, answer.output
    refused = command("run sort --dtype complex64 --backend cpu")
    assert refused.exit_code == 2
    assert "none of the chosen operators takes complex64; sort takes float32" in " ".join(
        refused.output.split()
    )
    listed = command("operators matmul --json").output
    assert '"complex64"' in listed
