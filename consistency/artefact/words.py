"""Sentences about a result that the script and the issue share."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from ..model import Result
from ..report.failure import number

_KINDS = {
    "special-values": "wrong special values", "structure": "wrong shape, dtype or side effect",
    "error": "raises where it should not", "crash": "ends the process", "timeout": "does not return",
    "nondeterministic": "not the same answer each time",
    "precision-scaling": "float64 is no more precise than float32",
}  # fmt: skip


def called(result: Result) -> str:
    """``torch.nn.functional.gelu``: the operator as its users know it."""
    return f"torch.{result.operator}"


def title(result: Result) -> str:
    """One line: what is wrong, of what dtype, where."""
    rho = result.metrics.get("rho_max", 0.0)
    gradient = "gradient of " if result.direction == "backward" else ""
    what = _KINDS.get(result.verdict.value, "")
    if not what or (result.verdict.value == "precision-scaling" and rho > 1.0):
        what = f"wrong by {number(rho)} × what rounding explains" if rho > 1.0 else "errs more than rounding explains"
    if result.verdict.value == "error" and "where the reference raised" in result.explanation:
        what = "returns a result where it should raise"
    if result.verdict.passes:
        what = "nothing wrong"
    return f"{gradient}{called(result)}, {result.dtype}: {what} on {device(result)}"


def device(result: Result) -> str:
    return {"cpu": "the CPU"}.get(result.backend, result.backend)


def provenance(result: Result, identity: Mapping[str, str]) -> list[str]:
    """Where it was found, as far as that is known."""
    known = [f"torch {identity['torch']}"] if identity.get("torch") else []
    known += [identity[key] for key in ("device", "driver") if identity.get(key) and identity[key] != "cpu"]
    if result.recorded_id:
        text = f"Its outputs were recorded elsewhere ({', '.join(known) or result.backend}), not where this was written"
        return [f"{text}; run this where that device is."]
    return [f"Found with {', '.join(known)}."] if known else []


def wrapped(text: str, width: int = 118) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
