"""Faults beside the numbers, and backends that are healthy although they do something else: each
beside the CPU, in a quick run of five cases per operator."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

import consistency
from consistency import operators
from consistency.backends.cpu import Cpu
from consistency.core.codec import decode_outcome, encode_outcome
from consistency.core.contract import (
    CHOSEN,
    Contract,
    Returned,
    contract_from_json,
    contract_to_json,
)
from consistency.core.detail import BrokenContract, detail_from_json, detail_to_json
from consistency.core.model import Case, Outcome
from consistency.core.recipe import TensorRecipe
from consistency.core.trees import map_tensors, tensors_in
from consistency.core.verdict import OutcomeStatus
from consistency.generate.materialize import prepare
from consistency.judge import tolerances
from consistency.judge.compare import compare
from consistency.judge.contract import breach
from consistency.judge.judge import judge
from consistency.judge.rule_values import Policy
from consistency.reference import Reference, quiet
from tests.support.running import judged

EXAMPLES = 5
Args, Kwargs = list[Any], dict[str, Any]
Change = Callable[[Callable[[Args, Kwargs], Any], Args, Kwargs], Any]
N = "nn.functional."
STRIDES: tuple[Literal["documented", "stated", "cpu", "any"], ...] = (
    "documented",
    "stated",
    "cpu",
    "any",
)


class Changing(consistency.Backend):
    """torch on the CPU, its calls passed through ``change``."""

    name = "changing"

    def __init__(self, change: Change) -> None:
        self.change = change

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        plain = super().call

        def run(args: Args, kwargs: Kwargs) -> Any:
            return plain(operator, args, kwargs)

        return self.change(run, list(args), dict(kwargs))


def of_result(change: Callable[[Tensor], Any]) -> Change:
    """Every returned tensor, changed."""
    return lambda run, args, kwargs: map_tensors(change, run(args, kwargs))


def of_last_result(change: Callable[[Tensor], Any]) -> Change:
    def changed(run: Any, args: Args, kwargs: Kwargs) -> Any:
        *first, last = run(args, kwargs)
        return (*first, change(last))

    return changed


def also(effect: Callable[[Tensor], Any]) -> Change:
    """An effect on the first argument beside the call."""

    def changed(run: Any, args: Args, kwargs: Kwargs) -> Any:
        result = run(args, kwargs)
        with torch.no_grad():
            effect(args[0])
        return result

    return changed


def the_first_argument(run: Any, args: Args, kwargs: Kwargs) -> Any:
    """The argument itself where its copy would have the same shape and strides."""
    result = run(args, kwargs)
    same = result.shape == args[0].shape and result.stride() == args[0].stride()
    return args[0] if same and result.dtype == args[0].dtype else result


def a_view_of_the_first_argument(run: Any, args: Args, kwargs: Kwargs) -> Any:
    same = the_first_argument(run, args, kwargs)
    return same.view_as(same) if same is args[0] else same


def behind_autograd(run: Any, args: Args, kwargs: Kwargs) -> Any:
    """Written through an alias without a version counter of its own."""
    with torch.no_grad():
        run([args[0].data, *args[1:]], kwargs)
    return args[0]


def zeroed_by_the_backward(run: Any, args: Args, kwargs: Kwargs) -> Any:
    result, x = run(args, kwargs), args[0]
    if result.requires_grad:
        result.register_hook(lambda g: x.data.zero_() * 0.0 + g)
    return result


def returned_by_other_torch_function(name: str) -> Change:
    """Another function of torch in place of the called one."""
    return lambda run, args, kwargs: getattr(torch, name)(*args, **kwargs)


def reversed_in_memory(y: Tensor) -> Tensor:
    """The same numbers, the first dimension varying fastest."""
    order = tuple(reversed(range(y.ndim)))
    return y.permute(order).contiguous().permute(order)


def row_major(y: Tensor) -> Tensor:
    return y.contiguous()


def with_gaps(y: Tensor) -> Tensor:
    """The same numbers, each followed by an unused one."""
    wide = y.new_zeros((*y.shape, 2))
    wide[..., 0] = y.detach()
    return wide[..., 0] if not y.requires_grad else y * 1


def restored(x: Tensor) -> None:
    """Used as scratch memory, and put back."""
    kept = x.clone()
    x.zero_().copy_(kept)


def detached_leaf(y: Tensor) -> Tensor:
    return y.detach().requires_grad_() if y.is_floating_point() else y


def tracked(y: Tensor) -> Tensor:
    return y if y.requires_grad or not y.is_floating_point() else y.requires_grad_()


def untracked(y: Tensor) -> Tensor:
    return y.detach()


FAULTS: list[tuple[str, str, Change]] = [
    # A view that is a copy.
    *[
        (name, "a copy", of_result(torch.clone))
        for name in ("transpose", "select", "split", "expand", "diagonal", "view", "unfold",
                     "squeeze", "permute", "as_strided", "narrow.method", "T", "view_as_real",
                     "meshgrid")
    ],
    ("unbind", "the last one a copy", of_last_result(torch.clone)),
    ("__getitem__", "a copy", of_result(torch.clone)),
    ("contiguous", "a copy", of_result(torch.clone)),
    ("positive", "a copy", of_result(torch.clone)),
    # A copy that is a view.
    ("clone", "the argument itself", the_first_argument),
    ("clone", "a view", a_view_of_the_first_argument),
    ("narrow_copy", "a view", returned_by_other_torch_function("narrow")),
    ("permute_copy", "a view", returned_by_other_torch_function("permute")),
    ("diagonal_copy", "a view", returned_by_other_torch_function("diagonal")),
    # Another tensor than the argument returned in place.
    ("add_", "another tensor", of_result(torch.clone)),
    ("exp_", "another tensor", of_result(torch.clone)),
    ("clamp_", "a view of itself", of_result(lambda y: y.view_as(y))),
    ("add.out", "another tensor", of_result(torch.clone)),
    ("index_add_", "another tensor", of_result(torch.clone)),
    # An input written to.
    ("softmax", "the input as scratch memory", also(restored)),
    ("sort", "the input as scratch memory", also(restored)),
    (N + "layer_norm", "the input zeroed", also(Tensor.zero_)),
    ("matmul", "the input zeroed behind autograd", also(lambda x: x.data.zero_())),
    ("exp", "the input zeroed by the backward", zeroed_by_the_backward),
    # A write that autograd does not notice.
    ("mul_", "behind autograd", behind_autograd),
    ("copy_", "behind autograd", behind_autograd),
    # Gradients.
    ("exp", "requires gradients", of_result(tracked)),
    ("matmul", "requires gradients", of_result(tracked)),
    ("var_mean", "the last one cut off", of_last_result(untracked)),
    ("sum", "a leaf", of_result(detached_leaf)),
    # Strides and memory formats.
    ("mul", "another order in memory", of_result(reversed_in_memory)),
    ("exp", "another order in memory", of_result(reversed_in_memory)),
    (N + "gelu", "another order in memory", of_result(reversed_in_memory)),
    ("sigmoid", "gaps in memory", of_result(with_gaps)),
    (N + "conv2d", "row-major", of_result(row_major)),
    (N + "batch_norm", "row-major", of_result(row_major)),
    (N + "avg_pool2d", "row-major", of_result(row_major)),
    (N + "relu", "row-major", of_result(row_major)),
    (N + "interpolate", "row-major", of_result(row_major)),
]  # fmt: skip


def in_float64(run: Any, args: Args, kwargs: Kwargs) -> Any:
    """As a more precise kernel: everything in float64, the result rounded."""

    def wide(t: Tensor) -> Tensor:
        return t.double() if t.is_floating_point() else t

    dtype = kwargs.get("dtype") or functools.reduce(
        torch.promote_types,
        [t.dtype for t in tensors_in(args) if t.ndim] or [next(tensors_in(args)).dtype],
    )
    result = run(list(map_tensors(wide, args)), map_tensors(wide, kwargs))
    return map_tensors(lambda t: t.to(dtype) if t.is_floating_point() else t, result)


def written_twice(run: Any, args: Args, kwargs: Kwargs) -> Any:
    """Computed elsewhere, then written into the argument in two steps."""
    result = run([args[0].clone(), *args[1:]], kwargs)
    args[0].zero_()
    return args[0].copy_(result)


def in_the_order_of_the_input(run: Any, args: Args, kwargs: Kwargs) -> Any:
    """As one formula of elementwise steps, whose results keep the layout of their input."""
    result = run(args, kwargs)
    return torch.empty_like(args[0], dtype=result.dtype).copy_(result)


def from_transposed(run: Any, args: Args, kwargs: Kwargs) -> Any:
    """(BᵀAᵀ)ᵀ, whose memory is column-major."""
    a, b = args
    if min(a.ndim, b.ndim) < 2:
        return run(args, kwargs)
    return run([b.mT, a.mT], kwargs).mT


def viewed_in_two_steps(run: Any, args: Args, kwargs: Kwargs) -> Any:
    return run([args[0].view_as(args[0]), *args[1:]], kwargs)


def in_memory_of_its_own(y: Tensor) -> Tensor:
    """A copy in the same layout, some elements into a larger storage."""
    if y.requires_grad:
        return y.clone()
    extent = sum((n - 1) * s for n, s in zip(y.shape, y.stride(), strict=True)) + 1
    flat = y.new_empty(7 + max(extent, 0) * bool(y.numel()))
    return flat.as_strided(y.shape, y.stride(), 7).copy_(y)


HEALTHY: list[tuple[str, str, Change]] = [
    *[
        (name, "in float64", in_float64)
        for name in ("exp", "mul", "sum", "softmax", N + "gelu", N + "conv2d", N + "max_pool2d",
                     "cumsum", "sort", N + "avg_pool2d", "var_mean", "cat")
    ],
    *[(name, "a copy", of_result(torch.clone)) for name in ("reshape", "flatten", "einsum")],
    *[(name, "written twice", written_twice) for name in ("add_", "mul_", "sqrt_")],
    *[
        (name, "in the order of the input", in_the_order_of_the_input)
        for name in ("softmax", "log_softmax", "cumsum", N + "layer_norm")
    ],
    ("matmul", "from transposed factors", from_transposed),
    ("select", "viewed in two steps", viewed_in_two_steps),
    ("transpose", "viewed in two steps", viewed_in_two_steps),
    ("tanh", "in memory of its own", of_result(in_memory_of_its_own)),
    (N + "conv2d", "channels_last", of_result(
        lambda y: y.contiguous(memory_format=torch.channels_last) if y.ndim == 4 else y)),
    (N + "relu", "row-major unless channels_last", of_result(
        lambda y: y if y.ndim > 3 else y.contiguous())),
]  # fmt: skip


def results_of(operator: str, change: Change) -> list[consistency.Result]:
    dtype = operators.get(operator).dtypes
    chosen = "float32" if "float32" in dtype else dtype[0]
    many = 5 * EXAMPLES if "pool" in operator else EXAMPLES  # few of theirs are images
    return list(judged([operator], [Changing(change)], [chosen], examples=many))


def test_the_lists_are_as_long_as_they_should_be() -> None:
    assert len(FAULTS) >= 40
    assert len({name for name, _, _ in FAULTS}) >= 20
    assert len(HEALTHY) >= 20


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("operator", "change"), [pytest.param(n, c, id=f"{n}: {w}") for n, w, c in FAULTS]
)
def test_a_quick_run_notices(operator: str, change: Change) -> None:
    failing = [result for result in results_of(operator, change) if result.verdict.fails]
    assert failing
    assert "structure" in {result.verdict.value for result in failing}


@pytest.mark.parametrize(
    ("operator", "change"), [pytest.param(n, c, id=f"{n}: {w}") for n, w, c in HEALTHY]
)
def test_what_is_healthy_does_not_fail(operator: str, change: Change) -> None:
    results = results_of(operator, change)
    assert [f"{r.explanation} {r.case.line}" for r in results if r.verdict.fails] == []
    assert any(result.verdict.passes for result in results)


# --- what is said, stored and left out


def case(operator: str, *shapes: tuple[int, ...], view: tuple[Any, ...] = ()) -> Case:
    tensors = [TensorRecipe(s, "float32", ("uniform", -1.0, 1.0), 4000, view) for s in shapes]
    return Case(operator, "float32", tuple(tensors))


def explanation(of: Case, change: Change, policy: Policy | None = None) -> tuple[str, str]:
    """Verdict and explanation of one case."""
    operator, materials = operators.get(of.operator), prepare(of)
    with quiet():
        reference = Reference(operator, materials, "forward")
        baseline = Cpu().run(operator, materials)
        outcome = Changing(change).run(operator, materials)
        twin = compare(baseline, reference)
        rule = tolerances.load().rule(operator.name, "float32", family=operator.family)
        judgment = judge(compare(outcome, reference, baseline), twin, rule, policy or Policy())
    return judgment.verdict.value, judgment.explanation


def test_sentences_say_what_differs_and_what_follows() -> None:
    matrix, image = (
        case("t", (3, 4)),
        case("sigmoid", (2, 4, 5, 3), view=(("permute", 0, 3, 1, 2),)),
    )
    sentences = [
        explanation(matrix, of_result(torch.clone)),
        explanation(case("clone", (3, 4)), the_first_argument),
        explanation(case("clone", (3, 4)), a_view_of_the_first_argument),
        explanation(case("add_", (3, 4), (3, 4)), of_result(torch.clone)),
        explanation(case("exp", (3, 4)), also(restored)),
        explanation(case("mul_", (3, 4), (3, 4)), behind_autograd),
        explanation(case("exp", (3, 4)), of_result(tracked)),
        explanation(image, of_result(row_major)),
        explanation(case("exp", (3, 4)), of_result(reversed_in_memory)),
        explanation(case("exp", (3, 4)), of_result(with_gaps)),
    ]
    assert sentences == [
        (
            "structure",
            "returns a copy where the CPU returns a view of argument 0: writes to it do not reach "
            "the argument",
        ),
        (
            "structure",
            "returns argument 0 itself where the CPU returns a copy: writes to it change the "
            "argument",
        ),
        (
            "structure",
            "returns a view of argument 0 where the CPU returns a copy: writes to it change the "
            "argument",
        ),
        ("structure", "works in place, but returns another tensor than argument 0"),
        (
            "structure",
            "argument 0 was written to, although the operator does not write to it: no bit differs "
            "afterwards, but its version counter moved",
        ),
        (
            "structure",
            "writes to argument 0 without moving its version counter: autograd does not notice the "
            "write",
        ),
        ("structure", "requires gradients, which it does not on the CPU"),
        (
            "structure",
            "is contiguous where it is channels_last on the CPU: strides (60, 20, 5, 1) instead of "
            "(60, 1, 15, 3)",
        ),
        (
            "structure",
            "is not contiguous, which it is on the CPU: strides (1, 3) instead of (4, 1)",
        ),
        (
            "structure",
            "is not contiguous, which it is on the CPU: strides (8, 2) instead of (4, 1)",
        ),
    ]


def test_the_numbers_come_first() -> None:
    verdict, text = explanation(case("t", (3, 4)), of_result(lambda y: y.clone() + 1.0))
    assert verdict == "divergent"
    assert "view" not in text


def test_a_policy_leaves_the_strides_to_the_backend() -> None:
    matrix = case("exp", (3, 4))
    ones = Case("t", "float32", (TensorRecipe((3, 4), "float32", ("integers", 1, 1), 4000),))
    rows = replace(case("softmax", (3, 4)), args=(*case("softmax", (3, 4)).args, 1))
    last = (("permute", 0, 3, 1, 2),)
    images = case("nn.functional.channel_shuffle", (2, 4, 5, 6), view=last)
    for of, change, admitted in (
        (matrix, reversed_in_memory, {"any"}),
        (rows, reversed_in_memory, {"any", "documented"}),
        (replace(images, args=(*images.args, 3)), row_major, {"any", "documented", "stated"}),
        (matrix, tracked, set()),
        (ones, lambda y: y.as_strided((4, 3), (3, 1)), set()),  # of a view
    ):
        for strides in STRIDES:
            verdict, _ = explanation(of, of_result(change), Policy(strides=strides))
            assert (verdict in ("exact", "rounding")) == (strides in admitted), (of, strides)


def test_strides_that_the_cpu_chose_hide_nothing_else() -> None:
    operator = operators.get("nn.functional.channel_shuffle")
    images = case(operator.name, (2, 4, 5, 6), view=(("permute", 0, 3, 1, 2),))
    materials = prepare(replace(images, args=(*images.args, 3)))
    baseline = Cpu().run(operator, materials)
    assert baseline.contract is not None
    (item,) = baseline.contract.returned
    assert item is not None
    lost = replace(item, strides=(120, 20, 5, 1))
    tracks_too = replace(item, tracks=not item.tracks)

    def kind(*returned: Returned) -> str:
        twice = replace(baseline, contract=Contract((item, item), ()))
        found = replace(baseline, contract=Contract(returned, ()))
        breached = breach(operator, materials, "forward", found, twice)
        return breached[1].kind if breached is not None else ""

    assert kind(lost, item) == CHOSEN
    assert kind(lost, tracks_too) == "gradient"


def test_compilers_owe_the_strides_of_the_uncompiled_call() -> None:
    rules = tolerances.load()
    names = ("cpu", "cuda:1", "cpu+compile", "cuda+compile", "cuda+compile+tf32")
    told = {name: rules.policy(name).strides for name in names}
    assert told == {
        "cpu": "documented",
        "cuda:1": "documented",
        "cpu+compile": "cpu",
        "cuda+compile": "stated",
        "cuda+compile+tf32": "stated",
    }


def test_a_backend_may_say_that_it_has_no_such_contract() -> None:
    class Foreign(Changing):
        keeps_contract = False

    operator, materials = operators.get("t"), prepare(case("t", (3, 4)))
    assert Foreign(of_result(torch.clone)).run(operator, materials).contract is None
    assert consistency.backends.resolve("numpy").run(operator, materials).contract is None


def test_a_contract_survives_json() -> None:
    contract = (
        Cpu()
        .run(
            operators.get("split"),
            prepare(replace(case("split", (4, 3)), args=(*case("split", (4, 3)).args, 2))),
        )
        .contract
    )
    assert contract is not None
    assert [item.storage for item in contract.returned if item is not None] == [0, 0]
    assert contract_from_json(json.loads(json.dumps(contract_to_json(contract)))) == contract
    mixed = Contract((None, Returned(0, 0, 1, 5, (-1, 7), True, True)), (2,))
    assert contract_from_json(contract_to_json(mixed)) == mixed
    outcome = Outcome(OutcomeStatus.OK, contract=mixed)
    row = encode_outcome(outcome, lambda output, tensor: {})
    assert decode_outcome(row, _no_tensor) == outcome
    assert decode_outcome({k: v for k, v in row.items() if k != "contract"}, _no_tensor) == Outcome(
        OutcomeStatus.OK
    )


def _no_tensor(*_: Any) -> Tensor:
    raise AssertionError("there is no tensor")


@pytest.mark.parametrize(
    "data",
    [
        {"returned": []},
        {"returned": {}, "written": []},
        {"returned": [[0, 0, 0]], "written": []},
        {"returned": [[0, 0, 0, 0, 0, "1"]], "written": []},
        {"returned": [[0, 0, 0, 0, 0, *[1] * 65]], "written": []},
        {"returned": [[-2, 0, 0, 0, 0]], "written": []},
        {"returned": [], "written": [-1]},
        {"returned": [], "written": [True]},
        {"returned": [None] * 70000, "written": []},
        [],
        "contract",
    ],
)
def test_what_is_no_contract_is_refused(data: Any) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        contract_from_json(data)


def test_a_worker_process_sends_it() -> None:
    backend = consistency.backends.resolve("cpu+isolated")
    of = case("t", (3, 4))
    try:
        contract = backend.run(operators.get("t"), prepare(of)).contract
    finally:
        backend.close()
    assert contract == Cpu().run(operators.get("t"), prepare(of)).contract


def test_details_survive_json() -> None:
    detail = BrokenContract("aliasing", "out/0", 0)
    assert detail_from_json(detail_to_json(detail)) == detail


def test_of_operators_without_a_promise_a_reason_is_given() -> None:
    declared = operators.registry().items()
    derivatives = {name for name, op in declared if op.derivative_of is not None}
    free = {name for name, op in declared if op.unspecified_aliasing}
    assert derivatives <= free
    free -= derivatives
    assert free == {
        "reshape", "reshape.method", "reshape_as", "flatten", "einsum", "sum_to_size",
        "nn.functional.channel_shuffle", "nn.functional.dropout", "nn.functional.alpha_dropout",
    }  # fmt: skip
