"""Sweep plans: the names of an operator's dimensions, their default values, and the arguments for
given sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ... import operators
from ...core.model import Case
from ...core.recipe import TensorRecipe, tensors
from ...errors import UsageError, did_you_mean
from ...generate.materialize import prepare
from ...operators.call_signature import argument_names
from ...operators.declare import Operator
from ...operators.public_names import find_name
from ...reference import Reference

SCALE = "scale"  # the magnitude of the data, a dimension of every plan
_END = 1 << 24  # end of the first bitstream window, beyond any size used here

Sizes = Mapping[str, float]
Make = Callable[[Callable[..., TensorRecipe], Mapping[str, int]], tuple[Any, ...]]


@dataclass(frozen=True)
class SweepPlan:
    """``make(tensor, sizes)`` returns the arguments, whose names are ``arguments``. ``usual`` are
    the dimensions and their default values, ``vary`` is the default of ``--vary``, ``formulas`` are
    those compared by default.
    """

    operator: str
    arguments: tuple[str, ...]
    usual: Mapping[str, int]
    make: Make
    vary: str
    formulas: Mapping[str, str] = field(default_factory=dict)

    @property
    def declared(self) -> Operator:
        return operators.get(self.operator)

    @property
    def spelled(self) -> dict[str, str]:
        """The names that torch gives to the arguments, with those that formulas have for them."""
        names = argument_names(self.declared)
        given = self.case("float32", self.usual, 0).args
        places = [i for i, arg in enumerate(given) if isinstance(arg, TensorRecipe)]
        found = {
            names[place]: short
            for place, short in zip(places, self.arguments, strict=False)
            if place < len(names)
        }
        taken = {*self.arguments, *self.usual}
        return {long: short for long, short in found.items() if long not in taken}

    def case(self, dtype: str, sizes: Sizes, seed: int) -> Case:
        """The case with these sizes; data are uniform in ±``scale``, and a smaller tensor holds the
        last elements of a larger one."""
        scale = float(sizes.get(SCALE, 1.0))
        windows = iter(range(1, 64))

        def tensor(*shape: int, low: float = -1.0) -> TensorRecipe:
            # The window's end does not depend on the shape, so that sizes share their data.
            stop = _END * next(windows) + seed * 7919
            return TensorRecipe(tuple(shape), dtype, ("uniform", low * scale, scale), stop)

        integer_sizes = {name: int(value) for name, value in sizes.items() if name != SCALE}
        return Case(self.operator, dtype, self.make(tensor, integer_sizes))


def _linear(tensor: Callable[..., TensorRecipe], s: Mapping[str, int]) -> tuple[Any, ...]:
    return tensor(s["N"], s["K"]), tensor(s["M"], s["K"]), tensor(s["M"])


def _rows(tensor: Callable[..., TensorRecipe], s: Mapping[str, int]) -> tuple[Any, ...]:
    return tensor(s["R"], s["N"]), -1


def _images(tensor: Callable[..., TensorRecipe], s: Mapping[str, int]) -> tuple[Any, ...]:
    return tensor(2, s["C"], s["H"], s["H"]), tensor(s["M"], s["C"], s["k"], s["k"])


def _over_rows(operator: str, vary: str, formulas: Mapping[str, str] | None = None) -> SweepPlan:
    return SweepPlan(operator, ("x",), {"R": 64, "N": 4096}, _rows, vary, formulas or {})


_PRODUCT = {"x @ W.T + b": "x @ W.T + b"}
_ONE_PASS = {"one pass": "((x * x).mean(-1) - x.mean(-1) ** 2) * N / (N - 1)"}
PLANS: dict[str, SweepPlan] = {
    "linear": SweepPlan(
        "nn.functional.linear",
        ("x", "W", "b"),
        {"N": 32, "K": 512, "M": 128},
        _linear,
        "K=1..2048",
        _PRODUCT,
    ),
    "matmul": SweepPlan(
        "matmul",
        ("a", "b"),
        {"M": 32, "K": 512, "N": 128},
        lambda t, s: (t(s["M"], s["K"]), t(s["K"], s["N"])),
        "K=1..2048",
    ),
    "einsum": SweepPlan(
        "einsum",
        ("a", "b"),
        {"M": 32, "K": 512, "N": 128},
        lambda t, s: ("mk,kn->mn", t(s["M"], s["K"]), t(s["K"], s["N"])),
        "K=1..2048",
        {"a @ b": "a @ b"},
    ),
    "dot": SweepPlan(
        "dot",
        ("a", "b"),
        {"N": 4096},
        lambda t, s: (t(s["N"]), t(s["N"])),
        "N=1..1048576",
        {"(a * b).sum()": "(a * b).sum()"},
    ),
    "sum": _over_rows("sum", "N=1..65536"),
    "mean": _over_rows("mean", "N=1..65536", {"x.sum(-1) / N": "x.sum(-1) / N"}),
    "var": _over_rows("var", "N=2..65536", _ONE_PASS),
    "cumsum": _over_rows("cumsum", "N=1..16384"),
    "softmax": _over_rows("softmax", "N=1..16384", {"exp / sum": "exp(x) / exp(x).sum(-1, True)"}),
    "layer_norm": SweepPlan(
        "nn.functional.layer_norm",
        ("x",),
        {"R": 32, "N": 1024},
        lambda t, s: (t(s["R"], s["N"]), [s["N"]]),
        "N=2..16384",
    ),
    **{
        name: SweepPlan(name, ("x",), {"N": 4096}, lambda t, s: (t(s["N"]),), "N=1..65536")
        for name in ("norm", "linalg.vector_norm")
    },
    "conv2d": SweepPlan(
        "nn.functional.conv2d", ("x", "W"), {"C": 16, "H": 12, "k": 3, "M": 16}, _images, "C=1..512"
    ),
}
_SHORT = {plan.operator: name for name, plan in PLANS.items()}

# For other operators, by family; the first that the operator accepts is used: argument names,
# default sizes, function that makes the arguments, default of --vary.
_Shape = tuple[tuple[str, ...], Mapping[str, int], Make, str]
_ELEMENTS: _Shape = (("x",), {"N": 4096}, lambda t, s: (t(s["N"]),), f"{SCALE}=2^-20..2^7")
_PAIRS: _Shape = (
    ("a", "b"),
    {"N": 4096},
    lambda t, s: (t(s["N"]), t(s["N"])),
    f"{SCALE}=2^-20..2^7",
)
_TRIPLES: _Shape = (
    ("a", "b", "c"),
    {"N": 4096},
    lambda t, s: (t(s["N"]), t(s["N"]), t(s["N"])),
    f"{SCALE}=2^-20..2^7",
)
_ROWS: _Shape = (("x",), {"R": 64, "N": 4096}, _rows, "N=2..16384")
_ALONE: _Shape = (("x",), {"R": 16, "N": 4096}, lambda t, s: (t(s["R"], s["N"]),), "N=2..16384")
_NORMALIZED: _Shape = (
    ("x",),
    {"R": 32, "N": 1024},
    lambda t, s: (t(s["R"], s["N"]), [s["N"]]),
    "N=2..16384",
)
_ROW_PAIRS: _Shape = (
    ("a", "b"),
    {"R": 16, "N": 1024},
    lambda t, s: (t(s["R"], s["N"]), t(s["R"], s["N"])),
    "N=2..16384",
)
_PRODUCTS: list[_Shape] = [
    (("a", "b"), {"M": 32, "K": 512, "N": 128}, lambda t, s: (t(s["M"], s["K"]), t(s["K"], s["N"])),
    "K=1..2048"),
    (("a", "b"), {"M": 32, "K": 512, "N": 64}, lambda t, s: (t(2, s["M"], s["K"]), t(2, s["K"],
    s["N"])), "K=1..2048"),
    (("a", "b"), {"M": 128, "K": 512}, lambda t, s: (t(s["M"], s["K"]), t(s["K"])), "K=1..2048"),
    (("a", "b"), {"K": 4096}, lambda t, s: (t(s["K"]), t(s["K"])), "K=1..65536"),
    (
        ("c", "a", "b"), {"M": 32, "K": 512, "N": 128}, lambda t, s: (t(s["M"], s["N"]), t(s["M"],
        s["K"]), t(s["K"], s["N"])),
        "K=1..2048",
    ),
    (
        ("c", "a", "b"), {"M": 32, "K": 512, "N": 64},
        lambda t, s: (t(2, s["M"], s["N"]), t(2, s["M"], s["K"]), t(2, s["K"], s["N"])),
        "K=1..2048",
    ),
    (("c", "a", "b"), {"M": 128, "K": 512}, lambda t, s: (t(s["M"]), t(s["M"], s["K"]), t(s["K"])),
    "K=1..2048"),
    (
        ("c", "a", "b"), {"M": 32, "K": 512, "N": 64},
        lambda t, s: (t(s["M"], s["N"]), t(2, s["M"], s["K"]), t(2, s["K"], s["N"])), "K=1..2048",
    ),
    (("x", "W"), {"N": 32, "K": 512, "M": 128}, lambda t, s: (t(s["N"], s["K"]), t(s["M"], s["K"])),
    "K=1..2048"),
    (
        ("a", "W", "b"), {"N": 16, "K": 64, "M": 8}, lambda t, s: (t(s["N"], s["K"]), t(s["M"],
        s["K"], 5), t(s["N"], 5)),
        "K=1..512",
    ),
]  # fmt: skip


def _convolution(rank: int, transposed: bool) -> _Shape:
    def make(tensor: Callable[..., TensorRecipe], s: Mapping[str, int]) -> tuple[Any, ...]:
        channels = (s["C"], s["M"]) if transposed else (s["M"], s["C"])
        return tensor(2, s["C"], *[s["H"]] * rank), tensor(*channels, *[s["k"]] * rank)

    return ("x", "W"), {"C": 16, "H": 12, "k": 3, "M": 16}, make, "C=1..128"


_BY_FAMILY: dict[str, list[_Shape]] = {
    "unary": [_ELEMENTS], "activation": [_ELEMENTS], "binary": [_PAIRS], "ternary": [_TRIPLES,
    _PAIRS],
    "reduction": [_ROWS, _ALONE], "cumulative": [_ROWS], "softmax": [_ROWS],
    "normalization": [_NORMALIZED, _ROWS],
    "loss": [_ROW_PAIRS], "matmul": _PRODUCTS,
    "convolution": [_convolution(rank, transposed) for rank in (1, 2, 3) for transposed in (False,
    True)],
}  # fmt: skip


def plan_of(name: str) -> SweepPlan:
    """The plan of an operator: its own, or the first plan of its family that it accepts. Raises
    UsageError."""
    own_plan = PLANS.get(_SHORT.get(name, name))
    if own_plan is not None:
        return own_plan
    registry = operators.registry()
    found = find_name(name, registry)
    operator = registry[found] if found is not None else None
    own_plan = PLANS.get(_SHORT.get(found or "", ""))
    if own_plan is not None:
        return own_plan
    if operator is None:
        raise UsageError(
            f"there is no operator {name!r:.60}{did_you_mean(name, [*PLANS, *registry])}"
        )
    for arguments, usual, make, vary in _BY_FAMILY.get(operator.family, ()):
        plan = SweepPlan(operator.name, arguments, usual, make, vary)
        if _accepted(operator, plan):
            return plan
    families = ", ".join(_BY_FAMILY)
    raise UsageError(
        f"{name} takes none of the arguments that a sweep can make; those that have dimensions "
        f"with names: {', '.join(PLANS)}, and most of the families {families}"
    )


def _accepted(operator: Operator, plan: SweepPlan) -> bool:
    """Whether torch accepts such arguments (of small sizes) and returns floating-point numbers, at
    most twice as many as it got."""
    small = {
        name: min(size, 5 + position) for position, (name, size) in enumerate(plan.usual.items())
    }  # no two are equal by chance
    case = plan.case("float32", small, 0)
    try:
        reference = Reference(operator, prepare(case), "forward")
        outputs = [output.tensor for output in reference.outputs]
        _ = reference.terms(0), reference.magnitudes
    except Exception:  # torch refuses them, or the error model reads other arguments
        return False
    input_count = sum(math.prod(t.base) for t in tensors(case.args))
    return (
        bool(outputs)
        and outputs[0] is not None
        and outputs[0].is_floating_point()
        and outputs[0].numel() <= 2 * input_count
    )
