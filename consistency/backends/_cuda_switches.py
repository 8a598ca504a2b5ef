"""The numeric switches of CUDA's libraries as context managers that restore the previous state.

torch has two interfaces for float32 precision, and reading the older one raises after the newer one
was used. Both are saved and restored together; the older one is left alone if it raises.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from typing import Any

import torch

_REDUCTIONS = ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")


@contextlib.contextmanager
def tf32(wanted: bool) -> Iterator[None]:
    """Switch TF32 for float32 matrix products, convolutions and recurrent networks on or off;
    restore it afterwards."""
    matmul, cudnn = _owners()
    precisions = _precisions()
    with _quiet():
        try:
            older = (torch.get_float32_matmul_precision(), matmul.allow_tf32, cudnn.allow_tf32)
        except RuntimeError:
            older = None
    try:
        with _quiet():
            if older is not None and older[1] != wanted:
                matmul.allow_tf32 = wanted
            if older is not None and older[2] != wanted:
                cudnn.allow_tf32 = wanted
            for op, precision in _precisions().items():
                if (precision == "tf32") != wanted:
                    torch._C._set_fp32_precision_setter("cuda", op, "tf32" if wanted else "ieee")
        yield
    finally:
        with _quiet():
            if older is not None:
                matmul.allow_tf32, cudnn.allow_tf32 = older[1:]
            if (
                older is not None and older[0] == "medium"
            ):  # allow_tf32 distinguishes only "high" and "highest"
                torch.set_float32_matmul_precision("medium")
            for op, precision in _precisions().items():
                if precision != precisions[op]:
                    torch._C._set_fp32_precision_setter("cuda", op, precisions[op])


def _owners() -> tuple[Any, Any]:
    return torch.backends.cuda.matmul, torch.backends.cudnn


def _precisions() -> dict[str, str]:
    """The newer interface's precision per kind of operator; empty if torch has only the older
    one."""
    getter = getattr(torch._C, "_get_fp32_precision_getter", None)
    return (
        {op: getter("cuda", op) for op in ("matmul", "conv", "rnn")} if getter is not None else {}
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide warnings about the older interface, which do not concern the operator under test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def settings(benchmark: bool) -> Iterator[None]:
    """Set cuDNN's benchmark mode, and float32 accumulation in half precision; restore both
    afterwards."""
    matmul, cudnn = _owners()
    assignments = [(cudnn, "benchmark", benchmark), (matmul, "allow_fp16_accumulation", False)]
    assignments += [(matmul, name, False) for name in _REDUCTIONS]
    changed = []
    try:
        for owner, name, value in assignments:
            before = getattr(owner, name, value)
            if before != value:
                # Newer versions keep a second flag beside this one, which setting the first alone
                # would reset.
                split = getattr(owner, f"{name}_split_k", None)
                changed.append((owner, name, before if split is None else (before, split)))
                setattr(owner, name, value if split is None else (value, split))
        yield
    finally:
        for owner, name, before in changed:
            setattr(owner, name, before)


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    """Allow only deterministic algorithms; operators without one raise."""
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def in_effect() -> dict[str, str]:
    """The present values of all numeric switches."""
    matmul, cudnn = _owners()
    result = {
        name: str(getattr(matmul, name, "")) for name in ("allow_fp16_accumulation", *_REDUCTIONS)
    }
    result |= {
        f"cudnn.{name}": str(getattr(cudnn, name))
        for name in ("benchmark", "deterministic", "enabled")
    }
    result |= {f"float32 {op}": precision for op, precision in _precisions().items()}
    if not _precisions():
        result |= {
            "allow_tf32 matmul": str(matmul.allow_tf32),
            "allow_tf32 cudnn": str(cudnn.allow_tf32),
        }
    result["deterministic"] = str(torch.are_deterministic_algorithms_enabled())
    result["CUBLAS_WORKSPACE_CONFIG"] = os.environ.get("CUBLAS_WORKSPACE_CONFIG", "")
    return {name: value for name, value in result.items() if value}
