"""Signs of zero: an exact zero has none but by convention, so a certificate overrules no sign, and
who is right is not accused where torch's convention and the definition's differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

import consistency
from consistency import backends, operators
from consistency.core.model import Case
from consistency.core.verdict import VerdictKind
from consistency.diagnose.evaluation import evaluate
from consistency.generate.materialize import prepare
from consistency.generate.search import batch
from consistency.judge.tolerances import load
from consistency.reference import Reference, quiet

RULES = replace(load(), expectations=())


class OtherZeros(consistency.Backend):
    """torch's CPU, but every zero of a result has the other sign."""

    name = "other-zeros"

    def call(self, operator, args, kwargs):  # type: ignore[no-untyped-def]
        found = operator(*args, **kwargs)
        return torch.where(found == 0, -found, found)


class NoNegativeZeros(OtherZeros):
    """torch's CPU, but every zero of a result is positive, as that of max(x, 0) is elsewhere."""

    def call(self, operator, args, kwargs):  # type: ignore[no-untyped-def]
        return operator(*args, **kwargs) + 0.0


def with_zeros(operator: str, negative: bool = True) -> Iterator[Case]:
    """Drawn cases whose float64 result has a zero (of negative sign)."""
    declared = operators.get(operator)
    for case in batch(declared, "float32", 40):
        with quiet():
            (output,) = Reference(declared, prepare(case), "forward").outputs
        assert output.tensor is not None
        zeros = output.tensor[output.tensor == 0]
        if zeros.numel() and (not negative or bool(torch.signbit(zeros).any())):
            yield case


def test_a_convention_accuses_neither_side() -> None:
    """relu(-0) is max(-0, 0)."""
    undecided = 0
    for case in with_zeros("nn.functional.relu"):
        cpu, other = evaluate(
            case, [backends.resolve("cpu"), NoNegativeZeros()], RULES, directions=("forward",)
        )
        assert not cpu.verdict.fails, cpu.explanation
        assert not other.verdict.fails, other.explanation
        undecided += other.verdict.kind is VerdictKind.INCONCLUSIVE
    assert undecided


def test_the_cpu_is_not_accused_of_the_sign_of_a_result_that_vanishes() -> None:
    """logsigmoid of a large number: a negative number too small for the format, torch's is 0."""
    for case in with_zeros("nn.functional.logsigmoid", negative=False):
        cpu, _ = evaluate(
            case, [backends.resolve("cpu"), OtherZeros()], RULES, directions=("forward",)
        )
        assert not cpu.verdict.fails, cpu.explanation


@pytest.mark.parametrize("operator", ["neg", "sin", "floor_divide", "trunc", "asinh"])
def test_a_sign_that_both_give_is_proved(operator: str) -> None:
    found = 0
    for case in with_zeros(operator):
        cpu, other = evaluate(
            case, [backends.resolve("cpu"), OtherZeros()], RULES, directions=("forward",)
        )
        assert not cpu.verdict.fails, cpu.explanation
        if other.verdict.fails:
            assert other.proof is not None
            found += other.verdict.kind is VerdictKind.SPECIAL_VALUES
    assert found


def test_a_certificate_of_zero_keeps_the_sign_of_float64() -> None:
    declared = operators.get("nn.functional.relu")
    case = next(with_zeros("nn.functional.relu"))
    with quiet():
        reference = Reference(declared, prepare(case), "forward")
    before = reference.outputs[0].tensor
    assert before is not None
    places = np.flatnonzero(((before == 0) & torch.signbit(before)).reshape(-1).numpy())[:8]
    assert not reference.proofs.settle(0, places.tolist())
    after = reference.outputs[0].tensor
    assert after is not None
    assert torch.equal(torch.signbit(after), torch.signbit(before))
    assert not reference.proofs.wrong
    assert not any(reference.proofs.certificates[0, int(place)].signed for place in places)


def test_a_quotient_by_an_infinity_is_a_signed_zero() -> None:
    declared = operators.get("floor_divide")
    seen = 0
    for case in with_zeros("floor_divide"):
        with quiet():
            reference = Reference(declared, prepare(case), "forward")
        tensor = reference.outputs[0].tensor
        assert tensor is not None
        places = np.flatnonzero((tensor == 0).reshape(-1).numpy())[:20].tolist()
        reference.proofs.settle(0, places)
        for place in places:
            certificate = reference.proofs.certificates.get((0, place))
            if certificate is not None and certificate.signed:
                own = bool(torch.signbit(tensor.reshape(-1)[place]))
                assert bool(np.signbit(certificate.high)) == own
                seen += own
    assert seen
