"""One failing result as text and as tensors: what a person reads first, and what a bundle keeps of it."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model import Result

if TYPE_CHECKING:
    import torch

MAX_TENSOR_BYTES = 64 << 20


def headline(result: Result) -> str:
    """``nn.functional.gelu · float32 · forward · cuda   divergent: 1,400 × budget …``"""
    return f"{result.operator} · {result.dtype} · {result.direction} · {result.backend}   {result.verdict}: {result.explanation}"


def message(result: Result, *, bundle: Path | None = None) -> str:
    """The whole story of one failure in a few lines, ending with the command that shows it again."""
    lines = [headline(result)]
    if result.worst is not None:
        where = f"at {result.worst.index}" if result.worst.index else "(the only element)"
        lines.append(
            f"  worst {where} of {result.output or 'out/0'}: got {result.worst.actual!r}, float64 says {result.worst.expected!r}"
        )
    ulp = result.metrics.get("ulp_max")
    if ulp and result.verdict.value == "divergent":
        ratio = result.metrics.get("rmse_ratio")
        against = f"; RMS error {ratio:,.3g} × that of the CPU in {result.dtype}" if ratio and ratio < 1e300 else ""
        lines.append(f"  largest error {ulp:,.4g} ulp{against}")
    if result.shapes:
        lines.append(f"  tensors: {'; '.join(result.shapes)}")
    plain = {k: v for k, v in result.case.to_json()["kwargs"].items() if not isinstance(v, dict)}
    if plain:
        lines.append("  " + ", ".join(f"{name}={value!r}" for name, value in plain.items()))
    lines.append(f"  again:   {command(result, bundle=bundle)}")
    return "\n".join(lines)


def command(result: Result, *, bundle: Path | None = None) -> str:
    """The command that runs this case again: by its folder in a bundle, or by the case's own line."""
    from ..bundle import failure_id

    where = quote(str(bundle / "failures" / failure_id(result))) if bundle is not None else quote(result.case.line)
    return f"consistency repro {where} --backend {quote(result.backend)} --direction {result.direction}"


def quote(text: str) -> str:
    """``text`` as one argument of this platform's usual shell."""
    if os.name != "nt":
        return shlex.quote(text)
    return text if text and not set(text) & set(' "&|<>^%') else '"' + text.replace('"', '\\"') + '"'


def tensors_of(result: Result, path: Path) -> None:
    """Inputs (base storages) and the float64 reference of a failing case as safetensors. Large cases are left out."""
    from safetensors.torch import save_file

    from .. import operators
    from ..materialise import prepare
    from ..reference import Reference

    materials = prepare(result.case)
    if sum(base.nbytes for base in materials.bases) > MAX_TENSOR_BYTES:
        return
    tensors: dict[str, torch.Tensor] = {f"base/{i}": t for i, t in enumerate(materials.build().bases)}
    reference = Reference(operators.get(result.operator), materials, result.direction) if _known(result) else None
    for output in reference.outcome.outputs if reference else ():
        if output.tensor is not None and not output.tensor.is_complex():
            tensors[f"reference/{output.name}"] = output.tensor.contiguous().clone()
    save_file(tensors, path, metadata=_metadata(result))


def _known(result: Result) -> bool:
    from .. import operators

    return result.operator in operators.registry()


def _metadata(result: Result) -> dict[str, Any]:
    return {"case": result.case.id, "operator": result.operator, "dtype": result.dtype, "sha256": result.sha256}
