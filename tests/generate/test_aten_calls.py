"""Cases that call an overload of aten: looked up, never evaluated; their error models; what is not
to be called."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import consistency
from consistency.backends import resolve
from consistency.core.model import Case
from consistency.diagnose.shrink import minimize
from consistency.engine import engine
from consistency.errors import UsageError
from consistency.generate.calls import aten, kernels
from consistency.generate.calls.case_operator import operator_of
from consistency.generate.calls.generic_error import GENERIC
from consistency.generate.calls.kernels.attention import fused_attention
from consistency.generate.calls.kernels.normalization import (
    batch_norm_arguments,
    batch_norm_in_float64,
)
from consistency.generate.materialize import case_of
from consistency.judge import tolerances
from consistency.operators.catalog import aten as catalog

RULES = tolerances.load()


def case(name: str, *args: Any, of: str = "float32", **kwargs: Any) -> Case:
    made = case_of(f"aten.{name.partition('.')[0]}", of, args, kwargs)
    return Case(made.operator, of, made.args, made.kwargs, source=f"aten/{name}")


def verdicts(made: Case, *backends: Any) -> list[str]:
    results = engine.judge_case(
        made,
        operator_of(made),
        [resolve(b) for b in backends or ("cpu",)],
        RULES,
        ("forward",),
    )
    return [result.verdict.value for result in results]


class Off(consistency.Backend):
    """All results a thousandth too large."""

    name = "off"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        found = super().call(operator, args, kwargs)
        return tuple(map(_larger, found)) if isinstance(found, (tuple, list)) else _larger(found)


def _larger(value: Any) -> Any:
    return value * 1.001 if isinstance(value, torch.Tensor) and value.is_floating_point() else value


@pytest.mark.parametrize(
    "name",
    [
        "addmm", "addmm.nothing", "nothing.default", "addmm.default.default", "__class__.default",
        "addmm.__class__", "",
        ".default",
        "from_file.default", "set_.source_Tensor", "resize_.default", "_print.default",
        "record_stream.default",
        "to_sparse.default",
        "_resize_output_.default", "os.system", "requires_grad_.default", "_assert_async.msg",
    ],
)  # fmt: skip
def test_what_is_no_operator_to_be_called_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"has no operator|is not one that a case may call"):
        aten.operator_of(Case("aten.addmm", "float32", source=f"aten/{name}"))


def test_a_case_is_called_by_its_operators_name() -> None:
    with pytest.raises(UsageError, match=r"is called aten.exp, not 'matmul'"):
        operator_of(Case("matmul", "float32", source="aten/exp.default"))


def test_an_unknown_source_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="known: opinfo, call, aten"):
        operator_of(Case("exp", "float32", source="eval/exp"))


def test_declared_operators_lend_their_rules() -> None:
    x = torch.rand(3, 4)
    for name, declared in (
        ("exp.default", "exp"),
        ("mul.Tensor", "mul"),
        ("add_.Tensor", "add_"),
        ("gelu.default", "nn.functional.gelu"),
    ):
        operator = operator_of(case(name, x, *([x] if "Tensor" in name else [])))
        assert operator.ruled_by[0] == declared
        assert not operator.differentiable
    weight = torch.rand(5, 3, 3, 3)
    conv = operator_of(
        case(
            "convolution.default",
            torch.rand(1, 3, 6, 6),
            weight,
            None,
            [1, 1],
            [0, 0],
            [1, 1],
            False,
            [0, 0],
            1,
        )
    )
    assert conv.ruled_by == ("nn.functional.conv2d", "convolution")
    assert operator_of(case("_to_copy.default", x, dtype=torch.bfloat16)).ruled_by[0] == "bfloat16"
    assert operator_of(case("_linalg_det.default", x)).ruled_by == ("linalg.det", "linalg")
    assert operator_of(case("linalg_ldl_factor.default", x)).family == GENERIC


def test_what_is_expected_of_a_declared_operator_is_expected_of_the_call() -> None:
    """histc counts in bfloat16, in which 256 + 1 is 256, with whatever instructions: a finding of
    docs/findings.md that tolerances.yaml lists."""
    made = case("histc.default", torch.full((600,), 0.5).bfloat16(), 4, 0, 1, of="bfloat16")
    assert verdicts(made, "cpu") == ["known"]
    unlisted = replace(RULES, expectations=())
    (result,) = engine.judge_case(made, operator_of(made), [resolve("cpu")], unlisted, ("forward",))
    assert result.verdict.value == "divergent"


def test_a_number_that_the_format_lacks_widens_the_model() -> None:
    x = torch.rand(3, 4)
    assert operator_of(case("mul.Tensor", x, 0.5)).error.kind == "rounded"
    assert operator_of(case("mul.Tensor", x, 0.1)).error.kind == "accumulated"
    assert operator_of(case("mul.Tensor", x.double(), 0.1, of="float64")).error.kind == "rounded"
    assert operator_of(case("add_.Tensor", x, x, alpha=3)).error.kind == "accumulated"
    torch.manual_seed(0)
    for divisor in (0.1, 1e-3, 0.031622776601683805, 7.3):
        assert verdicts(case("div.Tensor", torch.rand(4096), divisor)) == ["rounding"]
        assert verdicts(case("div.Tensor", torch.rand(4096), divisor), Off()) == ["divergent"]


def test_the_written_arguments_are_those_of_the_schema() -> None:
    x, s = torch.rand(4, 3), torch.rand(3)
    written = {
        "add_.Tensor": ((x, x), {}, (0,)),
        "_foreach_add_.List": (([x, x], [s, s]), {}, (0, 1)),
        "exp.out": ((x,), {"out": x}, (1,)),
        "native_batch_norm.default": ((x, s, s, s, s, True, 0.1, 1e-5), {}, (3, 4)),
        "exp.default": ((x,), {}, ()),
    }
    for name, (args, kwargs, expected) in written.items():
        assert operator_of(case(name, *args, **kwargs)).mutates == expected, name
    assert verdicts(case("exp.out", x, out=torch.zeros(4, 3))) == ["rounding"]
    assert verdicts(case("_foreach_add_.List", [x, x], [s, s])) == ["rounding"]


def samples() -> dict[str, Case]:
    """One call of each entry that this version of torch offers on the CPU, with results that are
    not all zero."""
    torch.manual_seed(3)
    x, g = torch.randn(4, 6, 8, 8), torch.randn(4, 6, 8, 8)
    w, s, v = torch.randn(5, 6, 3, 3), torch.randn(6), torch.rand(6) + 0.5
    rows, dim = torch.randn(5, 16), torch.randn(5, 16)
    mean, inverse = x.mean((0, 2, 3)), x.var((0, 2, 3)).rsqrt()
    pooled, indices = F.max_pool2d(x, 2, return_indices=True)
    q = torch.randn(2, 2, 9, 8)
    index = torch.randint(0, 7, (5, 11))
    window = ([3, 3], [1, 1], [1, 1])
    found = {
        "convolution.default": (x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
        "convolution_backward.default": (torch.randn(4, 5, 6, 6), x, w, [5], [1, 1], [0, 0], [1, 1],
        False, [0, 0], 1, [True] * 3),
        "native_layer_norm.default": (x, [8, 8], None, None, 1e-5),
        "native_group_norm.default": (x, s, s, 4, 6, 64, 3, 1e-5),
        "native_batch_norm.default": (x, s, s, s, v, True, 0.1, 1e-5),
        "_native_batch_norm_legit.default": (x, s, s, s, v, False, 0.1, 1e-5),
        "_native_batch_norm_legit.no_stats": (x, s, s, True, 0.1, 1e-5),
        "native_batch_norm_backward.default": (g, x, s, None, None, mean, inverse, True, 1e-5,
        [True] * 3),
        "_softmax.default": (x, 1, False), "_safe_softmax.default": (x, 1),
        "_log_softmax.default": (x, 1, False),
        "_softmax_backward_data.default": (g, x.softmax(1), 1, torch.float32),
        "_log_softmax_backward_data.default": (g, x.log_softmax(1), 1, torch.float32),
        "logsumexp.default": (x, [1], True),
        "embedding.default": (rows, index % 5), "embedding_dense_backward.default": (torch.randn(5,
        11, 3), index, 7, -1, False),
        "_scaled_dot_product_flash_attention_for_cpu.default": (q, q, q),
        "max_pool2d_with_indices.default": (x, [2, 2]),
        "max_pool2d_with_indices_backward.default": (torch.randn_like(pooled), x, [2, 2], [2, 2],
        [0, 0], [1, 1], False, indices),
        "avg_pool2d.default": (x, *window), "avg_pool2d_backward.default": (g, x, *window, False,
        True, None),
        "_adaptive_avg_pool2d.default": (x, [3, 3]),
        "_adaptive_avg_pool2d_backward.default": (torch.randn(4, 6, 3, 3), x),
        "upsample_bilinear2d_backward.default": (torch.randn(4, 6, 16, 16), [16, 16], [4, 6, 8, 8],
        False, None, None),
        "threshold_backward.default": (g, x, 0), "gelu_backward.default": (g, x),
        "tanh_backward.default": (g, x.tanh()),
        "sigmoid_backward.default": (g, x.sigmoid()), "silu_backward.default": (g, x),
        "elu_backward.default": (g, 1, 1, 1, False, x),
        "nll_loss_backward.default": (torch.tensor(1.0), rows, index[:, 0], None, 1, -100,
        torch.tensor(5.0)),
        "mse_loss.default": (rows, dim), "native_layer_norm_backward.default": (
            rows, dim, [16], dim.mean(1, keepdim=True), dim.var(1, keepdim=True).rsqrt(), None,
            None, [True, False, False]),
    }  # fmt: skip
    kwargs = {"gelu_backward.default": {"approximate": "tanh"}}
    there = {
        name: args
        for name, args in found.items()
        if hasattr(torch.ops.aten, name.partition(".")[0])
    }
    return {name: case(name, *args, **kwargs.get(name, {})) for name, args in there.items()}


@pytest.mark.parametrize("name", samples())
def test_a_healthy_call_passes_and_a_thousandth_too_much_does_not(name: str) -> None:
    made = samples()[name]
    assert set(verdicts(made, "cpu", "cpu+onednn=off", "cpu+threads=1")) <= {"exact", "rounding"}
    assert verdicts(made, Off()) == ["divergent"]


def test_no_cause_is_tried_that_a_kernel_could_stumble_over() -> None:
    """The suspects of a second look change sizes, positions and switches; below torch's public
    functions nobody checks them."""
    made = samples()["convolution_backward.default"]
    called: list[tuple[Any, ...]] = []

    class Noting(Off):
        def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
            return super().call(operator, args, kwargs)

    operator = operator_of(made)
    noting = replace(
        operator, function=lambda *args: called.append(args) or operator.callable(*args)
    )  # type: ignore[misc, func-returns-value]
    (result,) = engine.judge_case(
        made, noting, [Noting()], RULES, ("forward",), diagnosis_budget=engine.DiagnosisBudget()
    )
    assert result.verdict.fails
    assert len(called) > 10
    first = called[0]
    for args in called:
        assert args[3:] == first[3:]
        assert [a.shape for a in args[:3]] == [a.shape for a in first[:3]]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "name",
    ["convolution_backward.default", "max_pool2d_with_indices_backward.default", "mm.default"],
)
def test_minimizing_leaves_sizes_alone_where_nobody_checks_them(name: str) -> None:
    torch.manual_seed(5)
    made = {**samples(), "mm.default": case("mm.default", torch.randn(6, 7), torch.randn(7, 5))}[
        name
    ]
    operator = operator_of(made)
    (result,) = engine.judge_case(
        made, operator, [Off()], RULES, ("forward",), diagnosis_budget=engine.DiagnosisBudget()
    )
    small = minimize(result, operator, Off(), RULES, seconds=6.0)
    before, after = [[t.shape for t in c.tensors] for c in (made, small.result.case)]  # type: ignore[union-attr]
    assert (before == after) == (name != "mm.default")
    assert small.result.verdict.value == "divergent"
    assert small.calls > 3


def test_what_changes_safely() -> None:
    x, index = torch.rand(3, 4), torch.arange(3)
    made = case("index_select.default", x, 0, index)
    others = {
        True: [(x * 2.0, 0, index), (x.t().contiguous().t(), 0, index)],
        False: [
            (x[:2], 0, index),
            (x.double(), 0, index),
            (x, 1, index),
            (x, 0, index + 1),
            (x, 0, index[:2]),
            (x, 0),
        ],
    }
    for safe, calls in others.items():
        for args in calls:
            assert aten.changed_safely(made, case("index_select.default", *args)) is safe
    assert not aten.changed_safely(made, case("index_select.default", x, 0, index, extra=1))
    assert aten.changed_safely(case("mul.Tensor", x, 0.5), case("mul.Tensor", x, 0.25))


def test_every_entry_is_an_operator_of_some_torch() -> None:
    """Misspelled names would never be found; those of newer and older versions are known."""
    named = {
        name.partition(".")[0]
        for name in (full.removeprefix("aten::") for full in catalog._registered())
    }
    moved = {name for name in catalog.MOVES if name not in named and f"{name}_" not in named}
    others = {*kernels.kernels(), *catalog.METADATA_QUERIES, *catalog.CONSTANTS}
    absent = moved | {name for name in others if name not in named}
    assert absent <= {
        "_safe_softmax", "_batch_norm_no_update", "dim", "numel", "storage_offset",
    }, absent  # fmt: skip


def test_references_of_kernels_that_only_devices_have() -> None:
    torch.manual_seed(1)
    x, s, v = torch.randn(3, 4, 5), torch.randn(4), torch.rand(4) + 0.5
    for base, args in (
        ("cudnn_batch_norm", (x, s, s, s.clone(), v.clone(), True, 0.1, 1e-5)),
        ("_batch_norm_with_update", (x, s, s, s.clone(), v.clone(), 0.1, 1e-5)),
    ):
        expected = F.batch_norm(x, s.clone(), v.clone(), s, s, True, 0.1, 1e-5)
        found = batch_norm_in_float64(
            lambda given, base=base: batch_norm_arguments(given, base), *args
        )
        assert torch.allclose(found[0], expected)
        assert len(found) == 3
        assert not torch.equal(args[3], s)  # the running mean was written
    q, mask = torch.randn(2, 2, 6, 4), torch.randn(6, 6)
    entry: Any = kernels.kernels()
    efficient = entry["_scaled_dot_product_efficient_attention"].reference
    assert torch.allclose(
        efficient(q, q, q, mask, False, 0.0, False)[0],
        F.scaled_dot_product_attention(q, q, q, mask),
    )
    causal = entry["_scaled_dot_product_flash_attention"].reference
    assert torch.allclose(
        causal(q, q, q, 0.0, True, False)[0],
        F.scaled_dot_product_attention(q, q, q, is_causal=True),
    )
    assert fused_attention(lambda a, k: {"scale": 0.5}, q, q, q)[0].shape == q.shape


def test_what_other_devices_call_in_place_of_the_cpus_kernels() -> None:
    torch.manual_seed(1)
    q = torch.randn(2, 4, 6, 8)
    entry = kernels.kernels()["_scaled_dot_product_flash_attention_for_cpu"]
    assert entry.substitute is not None
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    mask = torch.randn(6, 6)
    for args, kwargs in (
        ((q, q, q), {}),
        ((q, q, q, 0.0, True), {}),
        ((q, q, q), {"attn_mask": mask, "scale": 0.3}),
    ):
        for got, expected in zip(
            entry.substitute(*args, **kwargs), flash(*args, **kwargs), strict=True
        ):
            assert got.dtype == expected.dtype
            assert torch.allclose(got, expected, atol=1e-6)
    meta = [t.to("meta") for t in (q, q, q)]
    operator = operator_of(case("_scaled_dot_product_flash_attention_for_cpu.default", q, q, q))
    assert [t.shape for t in operator(*meta)] == [
        q.shape,
        q.shape[:3],
    ]  # a device without the kernel


@pytest.mark.nightly
def test_a_worker_judges_them_too() -> None:
    assert verdicts(samples()["convolution.default"], "cpu+isolated") == ["rounding"]


def test_numpy_takes_those_whose_arguments_are_its_own() -> None:
    x, y = torch.rand(4, 5), torch.rand(5, 6)
    assert verdicts(case("mm.default", x, y), "numpy") == ["rounding"]
    assert verdicts(samples()["_softmax.default"], "numpy") == ["unsupported"]
