"""Sentences about a result, used by the script and the issue."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import torch

from ... import operators
from ...core import dtypes
from ...core.case_source import ATEN, CALL, YOURS, parse_source
from ...core.model import Result
from ...core.text import format_factor
from ...operators.declare import resolve
from ..failure import dtype_of
from .failure_facts import kind_of

_KINDS = {
    "special": "wrong NaN, infinity or sign of zero", "structure": "wrong shape or dtype",
    "modified": "writes to an input", "state": "changes global state of its process",
    "contract": "another view, identity or layout of its results",
    "raises": "raises where it should not", "lenient": "returns a result where it should raise",
    "crash": "ends the process",
    "timeout": "does not return", "repeats": "not the same answer each time",
    "threads": "another answer with other threads",
    "batch": "another answer alone than in a batch",
    "scaling": "float64 is no more precise than float32",
    "flags": "impossible or unlikely random numbers", "spread": "errs more than rounding explains",
}  # fmt: skip


def operator_title(result: Result) -> str:
    """``torch.nn.functional.gelu``: the operator's public name, or a description of another called
    function."""
    source, name = parse_source(result.case.source), result.operator
    if source.kind == CALL:
        return source.name if source.name.startswith("torch.") else f"torch.{source.name}"
    if source.kind == YOURS:
        return f"a function of somebody's own, {source.name}"
    if source.kind == ATEN:
        return f"torch.ops.aten.{source.name}"
    if name.startswith("formula."):
        return f"a formula for {name.removeprefix('formula.')}"
    if name == "program":
        return "a short program of torch calls"
    if name.endswith(".out"):
        return f"torch.{name.removesuffix('.out')}(out=…)"
    if name.endswith(".method") or (hasattr(torch.Tensor, name) and not hasattr(torch, name)):
        return f"torch.Tensor.{name.removesuffix('.method').rpartition('.')[2]}"
    # A name from a file is looked up; nothing is imported for it.
    known = operators.registry().get(name)
    in_torch = source.kind or (known is not None and resolve(name) is not None)
    return f"torch.{name}" if in_torch else name


def title(result: Result) -> str:
    """One line: what is wrong, dtype, and backend."""
    rho, kind = result.metrics.get("rho_max", 0.0), kind_of(result, None)
    what = _KINDS.get(kind, "")
    if not what:
        floats = dtypes.form_of(dtype_of(result)) is not None
        what = (
            f"wrong by {format_factor(rho)} × what rounding explains"
            if rho > 1.0 and floats
            else "wrong values"
        )
    if not (result.verdict.fails or result.verdict.warns):
        what = "nothing wrong" if result.verdict.passes else f"not tested ({result.verdict})"
    gradient = "gradient of " if result.direction == "backward" else ""
    return f"{gradient}{operator_title(result)}, {result.dtype}: {what} on {device(result)}"


def device(result: Result) -> str:
    return {"cpu": "the CPU"}.get(result.backend, result.backend)


def provenance(result: Result, identity: Mapping[str, str]) -> list[str]:
    """Where the failure was found, as far as known."""
    known = [f"torch {identity['torch']}"] if identity.get("torch") else []
    known += [
        identity[key]
        for key in ("device", "driver")
        if identity.get(key) and identity[key] != "cpu"
    ]
    if result.recorded_id:
        text = (
            f"Its outputs were recorded elsewhere ({', '.join(known) or result.backend}), not "
            f"where this was written"
        )
        return [f"{text}; run this where that device is."]
    return [f"Found with {', '.join(known)}."] if known else []


def wrap_lines(text: str, width: int = 118) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
