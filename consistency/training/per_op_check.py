"""Checks each operator on its actual inputs: a fast check of each call, and the judge for doubtful
ones.

Nothing is kept of a call that passes. Calls are checked in the first step and in steps whose number
is a power of two; of calls of one kind in a module and step, the first few. If the result needs it,
every call is checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..backends._messages import told
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

CALLS_PER_KIND = 8  # of one kind in one module and step that are checked
DOUBTFUL_SCORE = 1 / 16  # judged in full from here on, if the band was left for no known reason
LARGEST = 1 << 28  # bytes of one tensor of a case


class CallJudge(Protocol):
    """Judges what fails the fast check: :class:`.rule_judge.RuleJudge`, or a proxy for one in
    another process."""

    @property
    def full(self) -> bool: ...
    def bound(self, name: str, family: str) -> float: ...
    def judge(self, case: Case, own: Outcome, site: CallSite) -> float | None: ...


class PerOpCheck(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs the model's operators on a backend and checks the results: every call of every step with
    ``every``, none with ``off``.

    Call ``begin`` before each step. ``marker`` records the begin and end of each call. ``device``:
    the prepared backend's.
    """

    def __init__(
        self, backend: Backend, modules: Modules, judge: CallJudge | None, *, every: bool = False,
        off: bool = False,
        marker: CallMarker | None = None,
        device: str = "cpu",
    ) -> None:  # fmt: skip
        super().__init__()  # type: ignore[no-untyped-call]
        self.backend, self.paused, self.step, self._check_all, self._disabled = (
            backend,
            False,
            1,
            every,
            off,
        )
        self.calls = self.looked_at = 0
        self.left_out: Counter[str] = Counter()
        self._modules, self._judge, self._marker = modules, judge, marker
        self._calls_torch_directly = (
            type(backend).call in (Backend.call, TorchBackend.call)
            or type(backend).__module__ == "consistency.backends.cpu"
        )
        self._counts: Counter[tuple[Any, ...]] = Counter()
        self._accepted: dict[tuple[Any, ...], float] = {}
        self._bounds: dict[str, float] = {}
        self._device = torch.device(device).type

    def begin(self, step: int) -> None:
        """Begin a step: repetitions are counted per step."""
        self.step = step
        self._counts.clear()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.paused or getattr(func, "namespace", "") != "aten":
            return func(*args, **kwargs)
        self.calls += 1
        # needed for every call: forward calls name the modules of gradients
        name = self._modules.name()
        facts = facts_of(func)
        if facts.random and draws_numbers(func, args, kwargs):
            return (
                func(*args, **kwargs)
                if self._device == "cpu"
                else draw_on_cpu(func, facts, args, kwargs, None)
            )
        if facts.left_out:
            return func(*args, **kwargs)
        if not self._is_checked(func, args, name):
            return self._call(func, facts, args, kwargs, name)
        return self._call_and_check(func, facts, args, kwargs, name)

    def _call(self, func: Any, facts: OpFacts, args: Any, kwargs: Any, name: str) -> Any:
        if self._marker is None:
            return (
                func(*args, **kwargs)
                if self._calls_torch_directly
                else self.backend.call(facts.operator, args, kwargs)
            )
        self._marker.begin(
            self.calls,
            (
                f"aten.{facts.base}{f' in {name}' if name else ''} (call {self.calls:,}, step "
                f"{self.step})"
            ),
        )
        try:
            out = self.backend.call(facts.operator, args, kwargs)
            # so that a crash or hang happens within this call
            self.backend.finish()
            return out
        finally:
            self._marker.end()

    def _is_checked(self, func: Any, args: Any, name: str) -> bool:
        if self._disabled or self._judge is None or self._judge.full:
            return False
        if self._check_all or self.step & (self.step - 1):
            return self._check_all
        first = next((a for a in args if isinstance(a, torch.Tensor)), None)
        kind = (func, name, first.shape if first is not None else None)
        self._counts[kind] += 1
        return self._counts[kind] <= CALLS_PER_KIND

    def _call_and_check(self, func: Any, facts: OpFacts, args: Any, kwargs: Any, name: str) -> Any:
        in_args, in_kwargs = (
            _copy_mutated_arguments(facts, args, kwargs) if facts.writes else (args, kwargs)
        )
        number = self.calls
        out = self._call(func, facts, args, kwargs, name)
        try:
            if self._device != "cpu":
                in_args, in_kwargs = (
                    map_tensors(_to_cpu, tuple(in_args)),
                    map_tensors(_to_cpu, dict(in_kwargs)),
                )
            self.looked_at += 1
            score = self._score(func, facts, in_args, in_kwargs, out, args, kwargs)
            kind = (func, name)
            if score > max(
                DOUBTFUL_SCORE if self._check_all and not facts.strict else 1.0,
                self._accepted.get(kind, 0.0),
            ):
                self._judge_in_full(
                    func,
                    facts,
                    (in_args, in_kwargs),
                    (args, kwargs),
                    out,
                    CallSite(number, name, self.step, score, kind),
                )
        except (fast_check.NoReferenceError, ConsistencyError) as reason:
            self.left_out[f"{facts.base}: {reason}"] += 1
        except Exception as error:  # in the check itself: the model continues
            self.left_out[f"{facts.base}: looking at it raises {told(error)}"] += 1
        return out

    def _score(
        self,
        func: Any,
        facts: OpFacts,
        in_args: Any,
        in_kwargs: Any,
        out: Any,
        args: Any,
        kwargs: Any,
    ) -> float:
        """The largest score over returned and mutated tensors."""
        if any(
            t.layout != torch.strided
            for t in flatten((out, in_args))
            if isinstance(t, torch.Tensor)
        ):
            raise fast_check.NoReferenceError("a sparse tensor")
        shape = out.shape if isinstance(out, torch.Tensor) else None
        mutated = [
            _to_cpu(t) for t in flatten(written(facts, args, kwargs)) if isinstance(t, torch.Tensor)
        ]
        c = self._bound(facts, in_args)
        if (
            shape is not None
            and shape.numel() > 2 * fast_check.SAMPLE
            and (facts.elementwise or facts.base in _ELEMENTWISE_FORWARD)
        ):
            call = fast_check.sampled(in_args, in_kwargs, shape, self.calls)
            if call is not None:
                results, _ = fast_check.reference(func, facts, *call)
                sample = fast_check.ElementSampler(shape, fast_check.places(shape, self.calls))
                return fast_check.score(sample(_to_cpu(out)), results[0], facts, c)
        if out_dtype(out) == torch.float32 and not facts.writes:
            products = combined(facts.base, in_args, map_tensors(_to_cpu, out), self.calls)
            if products is not None:
                return fast_check.score_of(products, facts)
        results, effects = fast_check.reference(func, facts, in_args, in_kwargs)
        outputs = [
            _to_cpu(t) if isinstance(t, torch.Tensor) else t for t in fast_check.leading(facts, out)
        ]
        if len(outputs) != len(results):
            return float("inf")
        pairs = list(zip([*outputs, *mutated], [*results, *effects], strict=True))
        if any(isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor) for a, b in pairs):
            return float("inf")
        if facts.observe is not None:
            pairs = list(
                zip(
                    *(
                        facts.observe(in_args, in_kwargs, fast_check.widened(values))
                        for values in (outputs, results)
                    ),
                    strict=True,
                )
            )
        precision = fast_check.shortest(in_args, in_kwargs)
        largest_input = max((t.numel() for t in tensors_in((in_args, in_kwargs))), default=1)
        scores = [
            fast_check.score(a, b, facts, c, precision, largest_input / max(a.numel(), 1))
            for a, b in pairs
            if isinstance(a, torch.Tensor)
        ]
        return max(scores, default=0.0)

    def _bound(self, facts: OpFacts, args: Any) -> float:
        """c of the rules, in ulp."""
        assert self._judge is not None
        if facts.base not in self._bounds:
            self._bounds[facts.base] = self._judge.bound(*facts.rules)
        return self._bounds[facts.base]

    def _judge_in_full(
        self,
        func: Any,
        facts: OpFacts,
        before: tuple[Any, Any],
        after: tuple[Any, Any],
        out: Any,
        site: CallSite,
    ) -> None:
        """Judge the call as a case."""
        assert self._judge is not None
        case = _case_of_call(func, *before)
        outcome = capture.own_outcome(case, func, after[0], after[1], out)
        if outcome is None:
            self.left_out[f"{facts.base}: what it returned cannot be kept"] += 1
            return
        rho = self._judge.judge(case, outcome, site)
        if rho is not None:  # such scores of this kind pass from now on
            accepted = site.score * 0.5 / max(rho, 0.125)
            self._accepted[site.kind] = max(self._accepted.get(site.kind, 0.0), accepted)


def _copy_mutated_arguments(
    facts: OpFacts, args: Any, kwargs: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments, with copies of mutated tensors including some storage before them, so that
    views stay views."""
    copies = {
        id(t): _copy(t)
        for t in flatten(written(facts, args, kwargs))
        if isinstance(t, torch.Tensor)
    }

    def original(tensor: torch.Tensor) -> torch.Tensor:
        return copies.get(id(tensor), tensor)

    return map_tensors(original, tuple(args)), map_tensors(original, dict(kwargs))


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.numel():
        return tensor.clone()
    extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    offset = min(tensor.storage_offset(), KEPT_BEFORE_VIEW)
    flat = torch.as_strided(
        tensor, (offset + extent,), (1,), tensor.storage_offset() - offset
    ).clone()
    return flat.as_strided(tensor.shape, tensor.stride(), offset)


def _case_of_call(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Case:
    """Raises UsageError or RecipeError for arguments that no case can hold."""
    tensors = list(tensors_in((args, kwargs)))
    if max((t.numel() * t.element_size() for t in tensors), default=0) > LARGEST:
        raise UsageError(f"a tensor larger than {capture.megabytes(LARGEST)}")
    case_args = tuple(capture.argument(value) for value in args)
    case_kwargs = {
        name: capture.argument(value)
        for name, value in kwargs.items()
        if name not in capture.WITHOUT
    }
    return Case(
        aten.title_of(func),
        capture.dtype_of(tensors),
        case_args,
        case_kwargs,
        source=aten.source_of(func),
    )


def _to_cpu(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.device.type == "cpu" else tensor.cpu()


def out_dtype(out: Any) -> torch.dtype | None:
    """The dtype of the first returned tensor."""
    return next((t.dtype for t in flatten(out) if isinstance(t, torch.Tensor)), None)


# Elementwise in forward only, or with arguments that are not tensors; not declared elementwise.
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
