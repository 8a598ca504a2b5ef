"""Rules that others judge numbers by, for benchmarks/verdicts.py (whose description says what each
one is).

A rule takes an :class:`Evidence` and tells whether it flags the result.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import math
import sys
import types
import unittest
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from consistency.core.dtypes import FORMATS
from consistency.core.model import Outcome
from consistency.reference import Reference, quiet


@dataclass
class Evidence:
    """What the rules see of one result: the outputs of the backend, of the CPU in the same dtype,
    and in float64."""

    actual: Outcome
    cpu: Outcome
    reference: Reference

    @functools.cached_property
    def triples(self) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        """(actual, CPU, float64) of the floating outputs, complex ones as pairs of reals."""
        found = []
        for got, same, wide in zip(
            self.actual.outputs, self.cpu.outputs, self.reference.outcome.outputs, strict=False
        ):
            if (
                got.tensor is not None
                and got.tensor.is_floating_point()
                and wide.tensor is not None
            ):
                found.append((got.tensor, same.tensor, wide.tensor.double()))
            elif got.tensor is not None and got.tensor.is_complex() and wide.tensor is not None:
                a, b, c = (torch.view_as_real(t.tensor.resolve_conj()) for t in (got, same, wide))
                found.append((a, b, c.double()))
        return found

    @functools.cached_property
    def differs(self) -> bool:
        """Whether there is more wrong than numbers, or numbers that are exact differ."""
        if (self.actual.status == "raised") != (self.cpu.status == "raised") or len(
            self.actual.outputs
        ) != len(self.cpu.outputs):
            return True
        return any(
            _differs(a, b) for a, b in zip(self.actual.outputs, self.cpu.outputs, strict=True)
        )


def _differs(a: Any, b: Any) -> bool:
    x, y = a.tensor, b.tensor
    if x is None or y is None:
        return x is not y or not (a.value == b.value or a.value != a.value)
    if x.shape != y.shape or x.dtype != y.dtype:
        return True
    return not (x.is_floating_point() or x.is_complex()) and not torch.equal(x, y)


def close(actual: torch.Tensor, expected: torch.Tensor, **tolerance: Any) -> bool:
    try:
        torch.testing.assert_close(
            actual, expected.to(actual.dtype), equal_nan=True, check_stride=False, **tolerance
        )
    except AssertionError:
        return False
    return True


def against_cpu(e: Evidence) -> bool:
    return any(not close(a, c) for a, c, _ in e.triples)


def against_float64(e: Evidence) -> bool:
    return any(not close(a, w) for a, _, w in e.triples)


@functools.cache
def overrides() -> dict[tuple[str, torch.dtype], tuple[float, float]] | None:
    """The loosest (atol, rtol) of each operator and dtype in torch's operator database; None where
    it cannot be imported."""
    # Torch's test helpers want a package for inline expectations, of which nothing is used here.
    sys.modules.setdefault(
        "expecttest", types.SimpleNamespace(TestCase=unittest.TestCase, assert_expected_inline=None)
    )  # type: ignore[arg-type]
    try:
        from torch.testing._internal.common_device_type import toleranceOverride
        from torch.testing._internal.common_methods_invocations import op_db
    except Exception as error:  # it needs packages of torch's own test suite
        print(
            f"torch's operator database cannot be imported ({error}); its rule is left out",
            file=sys.stderr,
        )
        return None
    found: dict[tuple[str, torch.dtype], tuple[float, float]] = {}
    for entry in op_db:
        for decorator in entry.decorators or ():
            for item in getattr(decorator, "decorators", (decorator,)):
                if isinstance(item, toleranceOverride):
                    for dtype, tolerance in item.d.items():
                        before = found.get((entry.name, dtype), (0.0, 0.0))
                        found[entry.name, dtype] = (
                            max(before[0], tolerance.atol),
                            max(before[1], tolerance.rtol),
                        )
    return found


def op_db(e: Evidence) -> bool:
    known = overrides() or {}
    name = e.reference.operator.name
    for a, c, _ in e.triples:
        limit = known.get((name, a.dtype))
        if not close(a, c, **({} if limit is None else {"atol": limit[0], "rtol": limit[1]})):
            return True
    return False


def same_as_dynamo(cpu: torch.Tensor, actual: torch.Tensor, wide: torch.Tensor) -> bool:
    from torch._dynamo.utils import same

    logging.getLogger("torch._dynamo").setLevel(logging.CRITICAL)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bool(same(cpu, actual, fp64_ref=wide, tol=1e-4, equal_nan=True))


def dynamo(e: Evidence) -> bool:
    return any(not same_as_dynamo(c, a, w) for a, c, w in e.triples)


def _errors(
    x: torch.Tensor, wide: torch.Tensor, small: float, absolute: float
) -> tuple[float, ...]:
    """Largest and mean relative error, RMSE, and how many small elements are off."""
    finite = x.double().isfinite() & wide.isfinite()
    gap = (x.double() - wide).abs()
    near = finite & (wide.abs() <= small)
    far = finite & ~near
    count = max(int(far.sum()), 1)
    relative = gap[far] / wide[far].abs()
    largest = float(relative.max()) if relative.numel() else 0.0
    rmse = math.sqrt(float(gap[far].square().sum()) / count)
    return largest, float(relative.sum()) / count, rmse, float((gap[near] > absolute).sum())


def _infinities(x: torch.Tensor) -> torch.Tensor:
    """1 and −1 where the infinities are."""
    return torch.where(x.isinf(), x.sign(), torch.zeros_like(x))


def msprobe(limits: tuple[float, float, float], e: Evidence) -> bool:
    for a, c, w in e.triples:
        half = a.dtype in (torch.float16, torch.bfloat16)
        rounded = w.to(a.dtype)
        if not torch.equal(a.isnan(), rounded.isnan()) or not torch.equal(
            _infinities(a), _infinities(rounded)
        ):
            return True
        pair = [_errors(t, w, *((1e-3, 1e-5) if half else (1e-6, 1e-9))) for t in (a, c)]
        for mine, usual, limit in zip(*pair, (*limits, 2.0), strict=True):
            ratio = mine / usual if usual > 0.0 else (1.0 if mine == 0.0 else 10_000.0)
            if ratio > limit:
                return True
    return False


N = "nn.functional."
WEBNN: dict[str, float] = {
    "add": 1, "sub": 1, "mul": 1, "div": 2, "pow": 32, "exp": 32, "sqrt": 1, "reciprocal": 2,
    "tanh": 16, "sigmoid": 34,
    f"{N}elu": 18, f"{N}gelu": 18, f"{N}hardsigmoid": 2, f"{N}hardswish": 4, f"{N}leaky_relu": 1,
    f"{N}prelu": 1,
    f"{N}softplus": 18, f"{N}softsign": 3, f"{N}batch_norm": 6, f"{N}layer_norm": 840,
    f"{N}instance_norm": 840,
    f"{N}interpolate": 84,
    **dict.fromkeys(("maximum", "minimum", "abs", "neg", "clamp", "where", "sign", "amax", "amin",
    "argmax", "argmin"), 0),
    **dict.fromkeys(("cat", "tril", "transpose", "permute", "expand", "tile", "scatter", "flip",
    "gather"), 0),
    **dict.fromkeys((f"{N}relu", f"{N}max_pool2d", f"{N}pad"), 0),
}  # fmt: skip
PER_TERM = {  # a·n + b
    "matmul": (2, 0), "mm": (2, 0), "bmm": (2, 0), "addmm": (2, 3), f"{N}linear": (2, 3),
    f"{N}conv1d": (2, 0),
    f"{N}conv2d": (2, 0), f"{N}conv3d": (2, 0), f"{N}conv_transpose2d": (2, 0), "softmax": (3, 3),
    "sum": (1, 0),
    "mean": (1, 2), "prod": (1, 0), "cumsum": (1, 0), f"{N}avg_pool2d": (1, 2),
    "linalg.vector_norm": (2, 2),
    "logsumexp": (2, 18),
}  # fmt: skip


def ulps(e: Evidence, index: int) -> float | None:
    name = e.reference.operator.name
    if e.reference.direction == "backward":
        return None
    if name in PER_TERM:
        a, b = PER_TERM[name]
        return a * e.reference.terms(index) + b
    return WEBNN.get(name)


def webnn(e: Evidence) -> bool:
    for index, (a, _, w) in enumerate(e.triples):
        limit = ulps(e, index)
        if limit is not None and ulp_distance(a, w.to(a.dtype)) > limit:
            return True
    return False


_INTEGER = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def ulp_distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """Representable numbers between two tensors, at most over the elements; infinite where one is
    NaN."""
    if not torch.equal(a.isnan(), b.isnan()):
        return math.inf
    ordered = []
    for x in (a, b):
        bits = x.contiguous().view(_INTEGER[x.element_size()]).to(torch.int64)
        low = -(1 << (8 * x.element_size() - 1))
        ordered.append(torch.where(bits < 0, low - bits, bits).double())
    distance = torch.where(a.isnan(), 0.0, (ordered[0] - ordered[1]).abs())
    return float(distance.max()) if distance.numel() else 0.0


def gamma(e: Evidence) -> bool:
    with quiet():
        plain = e.reference.outcome.ok and e.reference.operator.observe is None
        magnitudes = e.reference.magnitudes if plain else ()
    for index, (a, _, w) in enumerate(e.triples):
        s = magnitudes[index] if index < len(magnitudes) else None
        if s is None or (isinstance(s, torch.Tensor) and s.numel() != w.numel()):
            s = w.abs()
        own = FORMATS[str(a.dtype).removeprefix("torch.")].unit_roundoff
        u = min(own, 2.0**-24)
        n = e.reference.terms(index)
        bound = (
            n * u / (1.0 - n * u) * (s.reshape(w.shape) if isinstance(s, torch.Tensor) else s)
            + own * w.abs()
        )
        rounded = w.to(a.dtype)
        finite = a.double().isfinite() & w.isfinite()
        if not torch.equal(a.isnan(), rounded.isnan()) or bool(
            ((a.double() - w).abs() > bound)[finite].any()
        ):
            return True
        if not torch.equal(a[~finite].nan_to_num(nan=0.0), rounded[~finite].nan_to_num(nan=0.0)):
            return True
    return False


RULES: dict[str, Callable[[Evidence], bool]] = {
    "assert_close (CPU)": against_cpu,
    "assert_close (float64)": against_float64,
    "op_db": op_db,
    "dynamo same": dynamo,
    "msprobe L0": functools.partial(msprobe, (10.0, 2.0, 2.0)),
    "msprobe L2": functools.partial(msprobe, (2.0, 1.2, 1.2)),
    "WebNN": webnn,
    "gamma": gamma,
}
