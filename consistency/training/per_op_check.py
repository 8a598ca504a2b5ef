"""Check each operator on the inputs that it really got: a fast check of the calls as they happen,
and the judge for the doubtful ones.

Nothing is kept of a call that passes. Every call of the first step is looked at, and of the steps
whose number is a power of two; where one kind of call repeats in a module within a step, its first
few. Where that was not enough, every call is looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..backends._outputs import told
from ..backends.base import Backend, TorchBackend
from ..core.model import Case, Outcome
from ..core.trees import flatten, map_tensors, tensors_in
from ..errors import ConsistencyError, UsageError
from ..generate.calls import aten
from ..generate.materialize import KEPT_BEFORE_VIEW
from ..operators.catalog.signature import draws_numbers
from . import fast_check
from .call_markers import CallMarker
from .float64_mode import draw_on_cpu
from .freivalds import combined
from .op_facts import OpFacts, facts_of, written
from .rule_judge import CallSite
from .trace import capture
from .trace.modules import Modules

CALLS_PER_KIND = 8  # calls of one kind in one module and step that are looked at
DOUBTFUL_SCORE = (
    1 / 16
)  # a score from which on a call is judged in full, where the band was left and nobody is to blame
LARGEST = 1 << 28  # bytes of one tensor of a call that becomes a case


class CallJudge(Protocol):
    """Judges what the fast check does not pass: :class:`.rule_judge.RuleJudge`, or one that asks it
    in another process."""

    @property
    def full(self) -> bool: ...
    def bound(self, name: str, family: str) -> float: ...
    def judge(self, case: Case, own: Outcome, site: CallSite) -> float | None: ...


class PerOpCheck(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Computes on a backend what the model asks for, and looks at what came out: at every call of
    every step with ``every``, at nothing with ``off``. ``begin`` is called before each step.
    ``marker`` is told each call before it is made, and its end."""

    def __init__(
        self, backend: Backend, modules: Modules, judge: CallJudge | None, *, every: bool = False,
        off: bool = False,
        marker: CallMarker | None = None,
    ) -> None:  # fmt: skip
        super().__init__()  # type: ignore[no-untyped-call]
        self.backend, self.paused, self.step, self._every, self._off = backend, False, 1, every, off
        self.calls = self.looked_at = 0
        self.left_out: Counter[str] = Counter()
        self._modules, self._judge, self._marker = modules, judge, marker
        self._plain = (
            type(backend).call in (Backend.call, TorchBackend.call)
            or type(backend).__module__ == "consistency.backends.cpu"
        )
        self._seen: Counter[tuple[Any, ...]] = Counter()
        self._admitted: dict[tuple[Any, ...], float] = {}
        self._bounds: dict[str, float] = {}
        self._device = torch.device(backend.device).type

    def begin(self, step: int) -> None:
        """A step begins: what repeats is counted anew."""
        self.step = step
        self._seen.clear()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.paused or getattr(func, "namespace", "") != "aten":
            return func(*args, **kwargs)
        self.calls += 1
        name = (
            self._modules.name()
        )  # of every call: on the way back it is known what a gradient goes through
        known = facts_of(func)
        if known.random and draws_numbers(func, args, kwargs):
            return (
                func(*args, **kwargs)
                if self._device == "cpu"
                else draw_on_cpu(func, known, args, kwargs, None)
            )
        if known.left_out:
            return func(*args, **kwargs)
        if not self._is_checked(func, args, name):
            return self._call(func, known, args, kwargs, name)
        return self._call_and_check(func, known, args, kwargs, name)

    def _call(self, func: Any, known: OpFacts, args: Any, kwargs: Any, name: str) -> Any:
        if self._marker is None:
            return (
                func(*args, **kwargs)
                if self._plain
                else self.backend.call(known.operator, args, kwargs)
            )
        self._marker.begin(
            self.calls,
            (
                f"aten.{known.base}{f' in {name}' if name else ''} (call {self.calls:,}, step "
                f"{self.step})"
            ),
        )
        try:
            out = self.backend.call(known.operator, args, kwargs)
            # so that what ends the process, or never comes back, is this call's
            self.backend.finish()
            return out
        finally:
            self._marker.end()

    def _is_checked(self, func: Any, args: Any, name: str) -> bool:
        if self._off or self._judge is None or self._judge.full:
            return False
        if self._every or self.step & (self.step - 1):
            return self._every
        first = next((a for a in args if isinstance(a, torch.Tensor)), None)
        kind = (func, name, first.shape if first is not None else None)
        self._seen[kind] += 1
        return self._seen[kind] <= CALLS_PER_KIND

    def _call_and_check(self, func: Any, known: OpFacts, args: Any, kwargs: Any, name: str) -> Any:
        given, named = _copy_written(known, args, kwargs) if known.writes else (args, kwargs)
        number = self.calls
        out = self._call(func, known, args, kwargs, name)
        try:
            if self._device != "cpu":
                given, named = map_tensors(_to_cpu, tuple(given)), map_tensors(_to_cpu, dict(named))
            self.looked_at += 1
            found = self._score(func, known, given, named, out, args, kwargs)
            kind = (func, name)
            if found > max(
                DOUBTFUL_SCORE if self._every and not known.strict else 1.0,
                self._admitted.get(kind, 0.0),
            ):
                self._judge_in_full(
                    func,
                    known,
                    (given, named),
                    (args, kwargs),
                    out,
                    CallSite(number, name, self.step, found, kind),
                )
        except (fast_check.NoReferenceError, ConsistencyError) as reason:
            self.left_out[f"{known.base}: {reason}"] += 1
        except Exception as error:  # of the look itself: the model goes on
            self.left_out[f"{known.base}: looking at it raises {told(error)}"] += 1
        return out

    def _score(
        self, func: Any, known: OpFacts, given: Any, named: Any, out: Any, args: Any, kwargs: Any
    ) -> float:
        """The largest score of what was returned and written."""
        if any(
            t.layout != torch.strided for t in flatten((out, given)) if isinstance(t, torch.Tensor)
        ):
            raise fast_check.NoReferenceError("a sparse tensor")
        shape = out.shape if isinstance(out, torch.Tensor) else None
        got = [
            _to_cpu(t) for t in flatten(written(known, args, kwargs)) if isinstance(t, torch.Tensor)
        ]
        c = self._bound(known, given)
        if (
            shape is not None
            and shape.numel() > 2 * fast_check.SAMPLE
            and (known.elementwise or known.base in _ELEMENTWISE_FORWARD)
        ):
            chosen = fast_check.sampled(given, named, shape, self.calls)
            if chosen is not None:
                results, _ = fast_check.reference(func, known, *chosen)
                change = fast_check.ElementSampler(shape, fast_check.places(shape, self.calls))
                return fast_check.score(change(_to_cpu(out)), results[0], known, c)
        if out_dtype(out) == torch.float32 and not known.writes:
            products = combined(known.base, given, map_tensors(_to_cpu, out), self.calls)
            if products is not None:
                return fast_check.score_of(products, known)
        results, effects = fast_check.reference(func, known, given, named)
        own = [
            _to_cpu(t) if isinstance(t, torch.Tensor) else t for t in fast_check.leading(known, out)
        ]
        if len(own) != len(results):
            return float("inf")
        pairs = list(zip([*own, *got], [*results, *effects], strict=True))
        if any(isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor) for a, b in pairs):
            return float("inf")
        if known.observe is not None:
            pairs = list(
                zip(
                    *(
                        known.observe(given, named, fast_check.widened(found))
                        for found in (own, results)
                    ),
                    strict=True,
                )
            )
        precision = fast_check.shortest(given, named)
        largest_input = max((t.numel() for t in tensors_in((given, named))), default=1)
        scores = [
            fast_check.score(a, b, known, c, precision, largest_input / max(a.numel(), 1))
            for a, b in pairs
            if isinstance(a, torch.Tensor)
        ]
        return max(scores, default=0.0)

    def _bound(self, known: OpFacts, args: Any) -> float:
        """c of the rules, in ulp."""
        assert self._judge is not None
        if known.base not in self._bounds:
            self._bounds[known.base] = self._judge.bound(*known.rules)
        return self._bounds[known.base]

    def _judge_in_full(
        self,
        func: Any,
        known: OpFacts,
        before: tuple[Any, Any],
        after: tuple[Any, Any],
        out: Any,
        site: CallSite,
    ) -> None:
        """The call as a case, which is judged."""
        assert self._judge is not None
        case = _case(func, *before)
        own = capture.own_outcome(case, func, after[0], after[1], out)
        if own is None:
            self.left_out[f"{known.base}: what it returned cannot be kept"] += 1
            return
        rho = self._judge.judge(case, own, site)
        if rho is not None:  # of the same kind of call, so much may pass without another look
            admitted = site.score * 0.5 / max(rho, 0.125)
            self._admitted[site.kind] = max(self._admitted.get(site.kind, 0.0), admitted)


def _copy_written(known: OpFacts, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, with copies of what will be written to: of the storage from a little before
    it, so that views stay views."""
    copies = {
        id(t): _copy(t)
        for t in flatten(written(known, args, kwargs))
        if isinstance(t, torch.Tensor)
    }

    def kept(tensor: torch.Tensor) -> torch.Tensor:
        return copies.get(id(tensor), tensor)

    return map_tensors(kept, tuple(args)), map_tensors(kept, dict(kwargs))


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.numel():
        return tensor.clone()
    extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    offset = min(tensor.storage_offset(), KEPT_BEFORE_VIEW)
    flat = torch.as_strided(
        tensor, (offset + extent,), (1,), tensor.storage_offset() - offset
    ).clone()
    return flat.as_strided(tensor.shape, tensor.stride(), offset)


def _case(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Case:
    """Raises UsageError or RecipeError for what no case can hold."""
    given = list(tensors_in((args, kwargs)))
    if max((t.numel() * t.element_size() for t in given), default=0) > LARGEST:
        raise UsageError(f"a tensor larger than {capture.megabytes(LARGEST)}")
    taken = tuple(capture.argument(value) for value in args)
    named = {
        name: capture.argument(value)
        for name, value in kwargs.items()
        if name not in capture.WITHOUT
    }
    return Case(
        aten.title_of(func), capture.dtype_of(given), taken, named, source=aten.source_of(func)
    )


def _to_cpu(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.device.type == "cpu" else tensor.cpu()


def out_dtype(out: Any) -> torch.dtype | None:
    """The dtype of the first tensor that came out."""
    return next((t.dtype for t in flatten(out) if isinstance(t, torch.Tensor)), None)


# Not elementwise to our declarations, for their gradients are sums or their arguments are not all
# tensors; forward they are.
_ELEMENTWISE_FORWARD = frozenset(
    {
        "addcmul_",
        "addcdiv_",
        "lerp_",
        "add_",
        "mul_",
        "div_",
        "sub_",
        "sqrt",
        "addcmul",
        "addcdiv",
        "where",
        "clone",
        "copy_",
    }
)
