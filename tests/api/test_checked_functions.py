"""consistency.check of functions made of torch's own operators, as a stranger wrote them: what a
mask hides, other roundings than the reference's, layouts that a slow kernel's time must reach."""

from __future__ import annotations

import pytest
import torch

import consistency
from consistency.generate.calls.example_calls import ExampleCall


def masked_mean(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.where(mask, x, 0.0).sum(-1) / mask.sum(-1).clamp(min=1)


def mean_by_product(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """NaN times 0 is NaN: what the mask hides gets through."""
    return (x * mask).sum(-1) / mask.sum(-1).clamp(min=1)


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def online_softmax(x: torch.Tensor) -> torch.Tensor:
    """Healthy: the sum of exponentials grows by blocks of 64 beside their maximum."""
    largest = torch.full((*x.shape[:-1], 1), -torch.inf, dtype=x.dtype)
    total = torch.zeros_like(largest)
    for block in x.split(64, dim=-1):
        grown = torch.maximum(largest, block.amax(-1, keepdim=True))
        terms = (block - grown).exp().sum(-1, keepdim=True)
        total, largest = total * (largest - grown).exp() + terms, grown
    return (x - largest).exp() / total


def rounded_softmax(x: torch.Tensor) -> torch.Tensor:
    """The same with a sum that is kept in bfloat16."""
    terms = (x - x.amax(-1, keepdim=True)).exp()
    return terms / terms.sum(-1, keepdim=True).bfloat16().to(x.dtype)


def halved_softmax(x: torch.Tensor) -> torch.Tensor:
    """The online one, with a factor that is a thousandth off."""
    return online_softmax(x) * 1.001


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def masked() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(9, 40), torch.rand(9, 40) > 0.3


def test_nan_that_a_mask_hides_from_most_rows() -> None:
    arguments = {"reference": masked_mean, "inputs": masked(), "dtypes": ["float32"]}
    wrong = consistency.check(mean_by_product, compile=False, **arguments)  # type: ignore[arg-type]
    assert [f.kind for f in wrong.findings] == ["special-values"], str(wrong)
    assert "with one nan in every row but the last" in wrong.findings[0].words
    right = consistency.check(
        lambda x, mask: masked_mean(x, mask),
        compile=False,
        **arguments,  # type: ignore[arg-type]
    )
    assert right, str(right)


def test_a_healthy_kernel_that_rounds_at_other_steps() -> None:
    report = consistency.check(
        online_softmax, reference=softmax, inputs=(torch.randn(6, 300),), dtypes=["float32"],
        compile=False,
    )  # fmt: skip
    assert report, str(report)
    assert any(r.direction == "backward" and r.verdict.passes for r in report.results)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("wrong", [rounded_softmax, halved_softmax])
def test_what_its_own_steps_do_not_excuse(wrong: object) -> None:
    report = consistency.check(
        wrong, reference=softmax, inputs=(torch.randn(6, 300),), dtypes=["float32"],
        compile=False,
    )  # fmt: skip
    assert [f.kind for f in report.findings][:1] == ["wrong-numbers"], str(report)
    assert report.findings[0].results[0].verdict.fails


def test_every_kind_of_call_comes_early() -> None:
    example = ExampleCall("mine", masked(), {}, "yours/mine", ())
    kinds = [case.kind for case in example.derived("float32")]
    assert kinds[0] == "example"
    assert set(kinds[1:5]) == {"sizes", "layout", "values", "special"}
    assert {case.kind for case in list(example.derived("float16"))[:5]} >= {"layout", "special"}


def test_a_check_without_time_says_so_first() -> None:
    report = consistency.check(
        online_softmax, reference=softmax, inputs=(torch.randn(6, 300),), seconds=1e-9,
        compile=False,
    )  # fmt: skip
    headline = str(report).splitlines()[0]
    assert "before the time was over" in headline or "nothing was tested" in headline
    assert any("calls, because the time was over" in text for text in report.not_tested)


def carried_in_bfloat16(x: torch.Tensor) -> torch.Tensor:
    """A running sum by blocks, of which what is carried on is rounded to bfloat16."""
    parts, carry = [], torch.zeros(x.shape[:-1])
    for block in x.split(64, -1):
        parts.append(block.cumsum(-1) + carry[..., None])
        carry = parts[-1][..., -1].bfloat16().float()
    return torch.cat(parts, -1)


def test_steps_in_a_shorter_format_are_told_where_they_pass() -> None:
    def running(x: torch.Tensor) -> torch.Tensor:
        return x.cumsum(-1)

    (result,) = consistency.assert_consistent(
        carried_in_bfloat16, torch.randn(3, 300), reference=running
    )
    assert "its own steps round to bfloat16" in result.explanation
    (result,) = consistency.assert_consistent(
        online_softmax, torch.randn(3, 300), reference=softmax
    )
    assert "its own steps" not in result.explanation
    report = consistency.check(
        carried_in_bfloat16, reference=running, inputs=(torch.randn(3, 300),), dtypes=["float32"],
        compile=False,
    )  # fmt: skip
    assert report.findings, str(report)


def variance_in_one_pass(x: torch.Tensor) -> torch.Tensor:
    return (x * x).mean(-1) - x.mean(-1).square()


def variance(x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean(-1, keepdim=True)).square().mean(-1)


def test_steps_that_amplify_rounding_are_a_fault() -> None:
    report = consistency.check(
        variance_in_one_pass, reference=variance, inputs=(torch.randn(6, 40) + 30.0,),
        dtypes=["float32"], compile=False,
    )  # fmt: skip
    assert report.findings[0].kind == "wrong-numbers", str(report)


def test_an_example_without_elements_has_no_special_numbers() -> None:
    example = ExampleCall("mine", (torch.ones(3, 0),), {}, "yours/mine", ())
    rows = [case for case in example.derived("float32") if case.kind == "special"]
    assert rows
    assert all(not tensor.special for case in rows for tensor in case.case.tensors)  # type: ignore[union-attr]
