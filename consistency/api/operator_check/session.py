"""The derived calls of an operator, judged one after the other."""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ...core.case_source import YOURS
from ...core.model import Case, Result
from ...core.text import pluralize
from ...core.trees import tensors_in
from ...core.verdict import OutcomeStatus, Verdict, VerdictKind
from ...diagnose.diagnosis_budget import DiagnosisBudget
from ...diagnose.evaluation import evaluate
from ...errors import RecipeError, UsageError
from ...generate.calls.example_calls import DerivedCase, ExampleCall, small_enough
from ...generate.materialize import prepare
from ...judge import tolerances as _tolerances
from ...operators.declare import Operator
from ...reference import quiet
from ..captured_tensors import captured_by, keyword_of
from ..checks import judged_by_own_steps
from ..own_functions import WithCaptured
from . import repeats
from .findings import Masks, masks
from .kernel_backend import (
    KernelBackend,
    PureCall,
    StoredOutcome,
    is_declared,
    reference_operator,
    rounds_as_reference,
)
from .kernel_steps import explained_by_own_steps, may_be_rounding
from .report import OUT_OF_TIME, is_fault
from .target import Target, device_of

_REPEATED = 3  # cases that are repeated
_DIAGNOSIS_SECONDS = 20.0
_WITHOUT_TRUTH = "the reference raises"


@dataclass
class JudgedExample:
    """One example call, with the operator and the backend that judge it."""

    operator: Operator
    backend: KernelBackend
    names: list[str]
    results: list[tuple[DerivedCase, Result]] = field(default_factory=list)
    repeats: list[repeats.Repeated] = field(default_factory=list)

    def masks(self, derived: DerivedCase) -> Masks | None:
        """The clearly wrong elements of the first result."""
        materials = prepare(derived.case)
        with quiet(), torch.no_grad():
            outcome = self.backend.run(self.operator, materials)
            arguments = materials.build("float64")
            truth = list(tensors_in(self.operator(*arguments.args, **arguments.kwargs)))
        found = [o.tensor for o in outcome.outputs if o.tensor is not None]
        return masks(found[0], truth[0]) if outcome.ok and found and truth else None


class CheckSession:
    def __init__(
        self,
        target: Target,
        reference: Callable[..., Any] | None,
        until: float,
        gradients: bool | None,
    ) -> None:
        self.target, self.reference = target, reference
        self.device, self.differentiable = "cpu", False
        self.examples: list[JudgedExample] = []
        self._until, self._gradients = until, gradients
        self._refused: Counter[str] = Counter()
        self._reasons: list[str] = []
        self._left = 0
        self._runnable: list[tuple[Any, str]] = []
        self._budget = DiagnosisBudget(effort=_DIAGNOSIS_SECONDS, whole=_DIAGNOSIS_SECONDS)

    def add(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], dtypes: tuple[str, ...] | None
    ) -> None:
        """Judge everything that is derived from one example."""
        target = self.target
        captured = captured_by(None if target.overload is not None else target.call, self.reference)
        kwargs = kwargs | {keyword_of(name): t for name, t in captured.tensors.items()}
        self.device = device_of((args, kwargs))
        written = target.written(args, kwargs)
        call = WithCaptured(target.call, captured) if captured.tensors else target.call
        reference = self.reference
        if reference is not None and captured.tensors:
            reference = WithCaptured(reference, captured)
        if written:
            call = PureCall(call, written)
        example = ExampleCall(target.name, args, kwargs, f"{YOURS}/{target.name}", written)
        operator = reference_operator(
            target if reference is not None else replace(target, call=call),
            reference,
            written if reference is not None else (),
        )
        one = JudgedExample(
            operator, KernelBackend(call, self.device), target.argument_names(args, kwargs)
        )
        self.examples.append(one)
        self._try_out(one, example.case)
        self.differentiable = self._has_gradients(one, example.case)
        for dtype in dtypes or example.dtypes:
            for derived in example.derived(dtype):
                if time.monotonic() > self._until:
                    self._left += 1
                elif small_enough(derived.case):
                    self._judge(one, derived)
        self._repeat(one)

    def _try_out(self, one: JudgedExample, case: Case) -> None:
        """Raise UsageError where the example itself cannot be called."""
        materials = prepare(case)
        name = self.target.name
        outcome = one.backend.run(one.operator, materials)
        if outcome.status is OutcomeStatus.RAISED:
            text = f"{name} raises {outcome.exception} on the example: {outcome.message[:200]}"
            raise UsageError(f"{text}; give inputs that it takes")
        arguments = materials.build("float64")
        try:
            with torch.no_grad():
                one.operator(*arguments.args, **arguments.kwargs)
        except UsageError:
            raise
        except Exception as error:
            who = "the reference" if self.reference is not None else f"{name} itself"
            remedy = (
                "let it compute in the dtype that it is given"
                if self.reference is not None
                else "give reference=, a function of torch that computes the same"
            )
            raise UsageError(
                f"{who} does not compute the example in float64 on the CPU "
                f"({type(error).__name__}: {str(error).splitlines()[0][:160]}); {remedy}"
            ) from None
        if self.reference is None:
            self._reasons.append(
                "the formula: no reference was given, so that the operator is compared with itself "
                "in float64"
            )

    def _has_gradients(self, one: JudgedExample, case: Case) -> bool:
        """Whether gradients reach the kernel's arguments; where they do not, the reason is
        kept."""
        if self._gradients is False:
            return False
        arguments = prepare(case).build(device=self.device, gradients=True)
        leaves = [arguments.tensors[i] for i in arguments.leaves]
        if not leaves or isinstance(one.backend.kernel, PureCall):
            return False
        try:
            results = list(tensors_in(one.backend.call(one.operator, arguments.args,
                                                       arguments.kwargs)))  # fmt: skip
            tracking = [r for r in results if r.requires_grad]
            if tracking:
                ones = [torch.ones_like(r) for r in tracking]
                torch.autograd.grad(tracking, leaves, ones, allow_unused=True)
        except Exception as error:
            text = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
            missing = "no autograd formula" in str(error) or "not implemented" in str(error)
            if self._gradients or not missing:
                return True  # the results show it
            self._reasons.append(f"gradients: {text}")
            return False
        if not tracking:
            if self._gradients:
                raise UsageError(f"{self.target.name} cuts its result off from autograd: register "
                                 "a gradient, or leave out gradients=True")  # fmt: skip
            self._reasons.append("gradients: the result is cut off from autograd")
        return bool(tracking)

    def _judge(self, one: JudgedExample, derived: DerivedCase) -> None:
        case = derived.case
        try:
            materials = prepare(case)
            arguments = materials.build()
            with quiet(), torch.no_grad():
                one.operator(*arguments.args, **arguments.kwargs)
        except (RecipeError, UsageError):
            raise
        except Exception as error:  # sizes that do not fit, or no kernel for the dtype
            text = str(error).splitlines()[0] if str(error) else type(error).__name__
            self._refused[f"{_WITHOUT_TRUTH}: {text[:160]}"] += 1
            return
        directions = ["forward"]
        if self.differentiable and derived.gradients:
            directions.append("backward")
        for result in self._evaluated(one, case, one.backend, directions):
            refused = result.verdict.kind in (VerdictKind.ERROR, VerdictKind.UNSUPPORTED)
            if (
                refused
                and result.direction == "forward"
                and not _is_device_error(result.explanation)
            ):
                self._refused[result.explanation[:160]] += 1
                return
            if is_fault(result) and self._rounds_as_reference(one, case, result.direction):
                text = f"gives the bits that the reference gives in {result.dtype}"
                result = replace(result, verdict=Verdict(VerdictKind.ROUNDING), explanation=text)
            if self.reference is not None and may_be_rounding(result):
                other = explained_by_own_steps(one.operator, one.backend, case, result.direction)
                result = result if other is None else other
            one.results.append((derived, result))
        if len(self._runnable) < 24 or derived.kind == "layout":
            self._runnable.append((materials, derived.words))

    def _rounds_as_reference(self, one: JudgedExample, case: Case, direction: str) -> bool:
        if self.reference is None:
            return False  # the kernel is its own reference
        with quiet():
            return rounds_as_reference(one.operator, one.backend, prepare(case), direction)

    def _evaluated(
        self, one: JudgedExample, case: Case, backend: Any, directions: Sequence[str]
    ) -> tuple[Result, ...]:
        judged = functools.partial(
            evaluate, case, [backend], _tolerances.load(), directions=tuple(directions)
        )
        composed = not is_declared(self.reference)
        return judged_by_own_steps(
            one.operator, judged, case, composed, self._budget, of_kernel=True
        )

    def _repeat(self, one: JudgedExample) -> None:
        chosen = [d for d, r in one.results if d.kind in ("example", "sizes") and r.verdict.tested
                  and r.direction == "forward"]  # fmt: skip
        chosen.sort(key=lambda d: (d.kind != "example", -len(prepare(d.case).bases[0])))
        for derived in chosen[:_REPEATED]:
            for direction in ("forward", "backward") if self.differentiable else ("forward",):

                def judge(
                    stored: StoredOutcome,
                    derived: DerivedCase = derived,
                    direction: str = direction,
                ) -> Result:
                    return self._evaluated(one, derived.case, stored, [direction])[0]

                found = repeats.repeated(
                    derived.case, derived.words, direction, one.operator, one.backend, judge
                )
                if found is not None:
                    one.repeats.append(found)

    def runnable(self) -> list[tuple[Any, str]]:
        """Calls that the kernel takes, the example first."""
        return self._runnable

    def warnings(self) -> list[str]:
        unsteady = [r for one in self.examples for r in one.repeats if r.differing and not r.wrong]
        return [
            f"its bits change from run to run, within rounding ({r.differing} of {r.repeats} "
            f"repeats of {r.words}, {r.direction}, by up to {r.ulp:.3g} ulp): sums in no fixed "
            "order, such as atomics"
            for r in unsteady[:1]
        ]

    def tested(self) -> list[str]:
        count = sum(one.repeats != [] for one in self.examples)
        return [f"determinism ({repeats.REPEATS} repeats)"] if count else []

    def not_tested(self) -> list[str]:
        reasons = [
            f"{count} call{'s' * (count > 1)} that the operator refuses: {text}"
            for text, count in self._refused.most_common(3)
        ]
        if self._left:
            reasons.append(f"{pluralize(self._left, 'call')}, {OUT_OF_TIME} (seconds=)")
        return [*dict.fromkeys(self._reasons), *reasons]


def _is_device_error(text: str) -> bool:
    """Whether an exception is not a refusal, but a device that ran beyond its memory."""
    return any(words in text for words in ("CUDA error", "illegal memory", "device-side assert"))
