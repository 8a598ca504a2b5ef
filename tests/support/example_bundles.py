"""Bundles for tests of reports: a small run with failures of several kinds, written by the writer
of real runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import consistency
from consistency.core.model import (
    Case,
    Cause,
    Comparison,
    ElementGroup,
    Evidence,
    Measured,
    Result,
    Worst,
)
from consistency.core.recipe import TensorRecipe
from consistency.core.verdict import Verdict
from consistency.diagnose.determinism import Repeatability
from consistency.diagnose.precision_scaling import Scaling
from consistency.engine import engine
from consistency.engine.events import (
    DeterminismChecked,
    Finished,
    Judged,
    MemoryGrowth,
    Minimized,
    PrecisionScalingMeasured,
    Started,
)
from consistency.report import bundles

BAD = (
    "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 1'><!-- "
    "\u2028 \x1b[31m {{ 7 * 7 }} `| @all"
)
BACKENDS = ("cpu", "numpy", "mine")


class Mine(consistency.Backend):
    def __init__(self, name: str = "mine", environment: dict[str, str] | None = None) -> None:
        self.name, self.known = (
            name,
            environment or {"device": "mine", "torch": "2.13.0", "threads": "1", "driver": "5.2"},
        )

    def environment(self) -> dict[str, str]:
        return self.known


def result(
    operator: str,
    dtype: str,
    backend: str,
    verdict: str,
    rho: float | None = None,
    *,
    n: int = 8,
    direction: str = "forward",
    **more: Any,
) -> Result:
    case = Case(
        operator,
        dtype,
        (TensorRecipe((n, 4), dtype, stop=n), TensorRecipe((4, n), dtype, stop=n + 1)),
    )
    comparison, metrics = None, {}
    if rho is not None:
        ulp = 2.0 * rho * n**0.5
        worst = Worst((1, 2), 1.5, 1.25)
        metrics = {"rho_max": rho, "ulp_max": ulp, "rmse_ratio": 2.0}
        terms = float(n) if operator in ("matmul", "sum") else 0.0
        element_group = ElementGroup(None, ulp, rho, ulp * 1e-7, worst=(worst,))
        comparison = Comparison(
            "ok", (Measured("out/0", dtype, (n, n), n * n, (element_group,), terms=terms),)
        )
        more = {"worst": worst, "output": "out/0"} | more
    text = more.pop("explanation", f"{rho} × budget" if rho is not None else verdict)
    family = more.pop("family", {"matmul": "matmul", "sum": "reduction"}.get(operator, "unary"))
    shapes = (f"[{n}, 4]", f"[4, {n}]")
    return Result(
        case,
        backend,
        direction,
        Verdict(verdict),
        text,
        metrics,
        family,
        comparison=comparison,
        shapes=shapes,
        **more,
    )


def ordinary() -> Iterator[Result]:
    """62 results of four operators on three backends, in which matmul and exp fail on one."""
    tf32 = Evidence(
        "divergent",
        3,
        trials={"float32 inputs": 0.4},
        cause=Cause("tf32-inputs", "TF32 inputs", 0.99),
    )
    for n in (1, 2, 8, 64, 1000):
        for backend in BACKENDS:
            if backend == "mine" and n > 2:
                sentence = "1,400 × budget: TF32 inputs explain 99%; float32 inputs makes it vanish"
                yield result(
                    "matmul",
                    "float32",
                    backend,
                    "divergent",
                    1.4 * n,
                    n=n,
                    explanation=sentence,
                    evidence=tf32,
                )
            else:
                yield result("matmul", "float32", backend, "rounding", 0.1 + n / 2000, n=n)
            yield result("sum", "float64", backend, "rounding", 0.2, n=n)
            yield result("exp", "float32", backend, "exact", 0.0, n=n)
        yield result("tan", "float32", "cpu", "rounding", 0.9, n=n)
        yield result(
            "tan",
            "float32",
            "numpy",
            "unsupported",
            explanation="no NumPy implementation of tan",
            n=n,
        )
    yield result("matmul", "float64", "cpu", "ill-conditioned", 3.0)
    yield result(
        "tan",
        "float32",
        "mine",
        "inconclusive",
        explanation="cannot tell: no element is finite in both",
    )
    nan = "NaN differs in 1 of 32 elements; it's a 'quoted' thing"
    yield result("exp", "float32", "mine", "special-values", explanation=nan, n=3)
    yield result("matmul", "float32", "mine", "rounding", 0.5, n=4)
    yield result("sum", "float64", "mine", "rounding", 0.3, n=4, direction="backward")
    yield result("matmul", "float32", "mine", "rounding", 0.7, n=5)
    yield result("matmul", "float32", "mine", "rounding", 0.7, n=6)


def hostile() -> Iterator[Result]:
    """Names and sentences that are markup, that end a script element, that would move a terminal's
    cursor."""
    yield result(
        "<script>alert(1)</script>",
        "float32",
        BAD,
        "divergent",
        12.0,
        explanation=f"12 × budget {BAD}",
        family=BAD,
    )
    yield result("exp", "float32", BAD, "unsupported", explanation=BAD, family=BAD)
    yield result("exp", "float32", "cpu", "rounding", 0.5)


HOSTILE = tuple(hostile())


def stored_run(folder: Path, results: Sequence[Result] = ()) -> Path:
    """Write a bundle with these results (default: the ordinary ones, with a smaller form of a
    failure, scalings and the rest)."""
    mine = Mine() if not results else Mine(BAD, {"device": BAD, "driver": BAD})
    chosen = engine.configure(["matmul", "exp", "sum", "tan"], ["cpu", "numpy"], examples=5)
    chosen = replace(
        chosen, backends=(*chosen.backends, mine)
    )  # no backend of such a name would be taken
    write = bundles.writer(folder)
    with contextlib.closing(write):
        write(Started(chosen, {"cuda": "torch is a CPU build" + (BAD if results else "")}, 1, 1))
        for one in results or ordinary():
            write(Judged(one.case, (one,)))
        if not results:
            failing = next(r for r in ordinary() if r.verdict.value == "divergent")
            small = result(
                "matmul",
                "float32",
                "mine",
                "divergent",
                1400.0,
                n=7,
                explanation=failing.explanation,
                evidence=failing.evidence,
            )
            write(Minimized(failing, small))
            powers = {"cpu": 29, "numpy": 29, "mine": 41}
            write(
                PrecisionScalingMeasured(
                    tuple(
                        Scaling("matmul", name, 8, 8, 2.0**power) for name, power in powers.items()
                    )
                )
            )
            write(
                DeterminismChecked(
                    (Repeatability("sum", "float32", "forward", "mine", "runs", 4, 2, 3.0),)
                )
            )
            write(MemoryGrowth("matmul", "mine", 4096.0))
        write(Finished(12.5, False))
    return folder
