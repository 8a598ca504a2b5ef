"""Watching a program: every call is judged or counted with a reason, the program is not disturbed,
and faults are named."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import consistency
from consistency.errors import BundleError, UsageError
from consistency.storage.cases import read_cases
from consistency.storage.recording.header import read_header
from consistency.training.trace import kinds
from tests.support.commands import command
from tests.support.watched_models import MODELS, convolutional, recurrent, train, transformer

BACKENDS = ["cpu+onednn=off", "cpu+threads=1"]


class Faulty(consistency.Backend):
    """Right, but for one operator where its arguments have these shapes: one column is a little too
    large."""

    name = "faulty"

    def __init__(self, operator: str, *shapes: tuple[int, ...]) -> None:
        self.operator, self.shapes = operator, shapes

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        found = super().call(operator, args, kwargs)
        shapes = tuple(tuple(arg.shape) for arg in args if isinstance(arg, torch.Tensor))
        if operator.name != self.operator or shapes[: len(self.shapes)] != self.shapes:
            return found
        first = found[0] if isinstance(found, tuple) else found
        wrong = first if operator.name.endswith("_") else first.clone()
        wrong[..., -1] *= 1.001
        return (wrong, *found[1:]) if isinstance(found, tuple) else wrong


@pytest.mark.parametrize("name", MODELS)
def test_a_healthy_model_is_not_accused(name: str) -> None:
    with consistency.watch(backends=BACKENDS) as w:
        train(MODELS[name](), steps=2)
    assert not w.failures, str(w)
    assert w.first is None
    verdicts = {result.verdict.value for result in w.results}
    assert {"rounding", "exact"} <= verdicts
    judged = [call for call in w.calls if call.case is not None]
    tested = {result.case.digest for result in w.results if result.verdict.tested}
    # All but what is zero on purpose, such as the state that an optimizer begins with.
    assert len(tested) >= 0.9 * len({call.case.digest for call in judged if call.case is not None})
    untested = {r.explanation.partition(":")[0] for r in w.results if not r.verdict.tested}
    assert untested <= {"cannot tell"}
    assert w.count == len(w.calls) == len(judged) + sum(w.left_out.values())
    assert {r.backend for r in w.results} == set(BACKENDS)


def test_all_directions_of_a_step_are_seen() -> None:
    with consistency.watch(backends=["cpu"]) as w:
        train(convolutional())
    names = [call.operator for call in w.calls if call.case is not None]
    assert names.index("aten.convolution.default") < names.index(
        "aten.convolution_backward.default"
    )
    assert names.index("aten.convolution_backward.default") < names.index("aten.addcdiv_.default")
    where = {call.operator: call.module for call in w.calls}
    assert where["aten.native_batch_norm.default"] == 'BatchNorm2d "1"'
    assert where["aten.native_batch_norm_backward.default"] == 'backward of BatchNorm2d "1"'
    assert where["aten._log_softmax.default"] == ""
    assert where["aten.addcdiv_.default"] == ""


@pytest.mark.parametrize("name", MODELS)
def test_in_inference_mode_whole_layers_are_calls(name: str) -> None:
    model, inputs, _ = MODELS[name]()
    model.eval()
    with torch.inference_mode(), consistency.watch(backends=BACKENDS) as w:
        model(inputs)
    assert not w.failures, str(w)
    assert {r.verdict.value for r in w.results} <= {"rounding", "exact"}
    assert len(w.results) >= 6


def test_a_module_is_named_on_the_way_back() -> None:
    with consistency.watch(backends=["cpu"]) as w:
        train(transformer())
    backward = [
        call for call in w.calls if call.operator == "aten.native_layer_norm_backward.default"
    ]
    assert [call.module for call in backward] == [
        'backward of LayerNorm "encoder.norm2"', 'backward of LayerNorm "encoder.norm1"',
    ]  # fmt: skip
    assert {call.module for call in w.calls if call.operator == "aten._safe_softmax.default"} <= {
        'MultiheadAttention "encoder.self_attn"'
    }


FAULTS = [
    (convolutional, "aten.convolution", ((4, 8, 6, 6), (6, 8, 3, 3)), 'Conv2d "4"'),
    (convolutional, "aten.native_batch_norm", (), 'BatchNorm2d "1"'),
    (convolutional, "aten.convolution_backward", ((4, 6, 4, 4),), 'backward of Conv2d "4"'),
    (transformer, "aten.addmm", ((32,),), 'Linear "encoder.linear1"'),
    (transformer, "aten.native_layer_norm_backward", (), 'backward of LayerNorm "encoder.norm2"'),
    (recurrent, "aten.mkldnn_rnn_layer", (), 'LSTM "lstm"'),
    (recurrent, "aten.embedding_dense_backward", (), 'backward of Embedding "embed"'),
    (recurrent, "aten.addmm", (), 'Linear "head"'),
]


@pytest.mark.parametrize(
    ("model", "operator", "shapes", "module"), FAULTS, ids=[f"{f[1]}-{f[3]}" for f in FAULTS]
)
def test_a_planted_fault_is_named_first(
    model: Any, operator: str, shapes: Any, module: str
) -> None:
    made = model()
    if operator == "aten.mkldnn_rnn_layer" and not torch.backends.mkldnn.is_available():
        pytest.skip("torch without oneDNN takes its LSTM apart")
    with consistency.watch(backends=[Faulty(operator, *shapes), "cpu"]) as w:
        train(made)
    assert w.first is not None, str(w)
    assert (w.first.operator, w.first.backend, w.first.verdict.value) == (
        operator,
        "faulty",
        "divergent",
    )
    call = w.call_of(w.first)
    assert call.module == module
    assert {result.operator for result in w.failures} == {operator}
    said = str(w)
    assert f"the first that diverges: {call.operator} (call {call.number}, in {module})" in said
    assert "again:" in said


@pytest.mark.nightly
def test_the_program_computes_what_it_computes_without(tmp_path: Path) -> None:
    for name, made in MODELS.items():
        plain = train(made(), steps=3)
        state = torch.get_rng_state()
        for when in ("after", "now"):
            with consistency.watch(backends=["cpu+onednn=off"], when=when, own=True):
                watched = train(made(), steps=3)
            assert watched == plain, name
            assert torch.equal(torch.get_rng_state(), state), name


def test_judging_as_it_goes_gives_the_same_results() -> None:
    seen: list[int] = []
    found = []
    for when in ("after", "now"):
        with consistency.watch(backends=["cpu+onednn=off"], when=when) as w:
            train(recurrent())
            seen.append(len(w.results))
        # Not by the cases' bits: oneDNN's LSTM hands on scratch space whose gaps hold whatever was
        # there.
        found.append([(r.operator, r.verdict.value, r.metrics.get("rho_max")) for r in w.results])
    assert found[0] == found[1]
    assert seen[0] == 0
    assert seen[1] > 50


def test_inputs_are_those_before_the_call() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    with consistency.watch(backends=["cpu"], own=True) as w:
        x[:, 1:3].mul_(torch.full((3, 1), 3.0))
    (call,) = [call for call in w.calls if call.operator == "aten.mul_.Tensor"]
    assert call.case is not None
    written = call.case.tensors[0]
    assert (written.shape, written.stride, written.offset) == ((3, 2), (4, 1), 1)  # type: ignore[union-attr]
    before = torch.frombuffer(bytearray(written.data), dtype=torch.float32)  # type: ignore[union-attr]
    assert before.tolist() == [float(i) for i in range(11)]
    assert call.own is not None
    assert call.own.outputs[1].name == "arg/0"
    assert call.own.outputs[1].tensor.tolist() == x.reshape(-1)[:11].tolist()  # type: ignore[union-attr]
    assert not w.failures
    assert {r.backend for r in w.results} == {"cpu", "cpu (this process)"}


class _Wrong(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A device that multiplies matrices a little wrong, and adds in place into nothing."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.add_.Tensor and args[0].storage_offset():
            return args[0]
        found = func(*args, **(kwargs or {}))
        return found * 1.001 if func is torch.ops.aten.mm.default else found


def test_what_the_program_computed_is_what_is_judged() -> None:
    x, y = torch.rand(4, 5), torch.rand(5, 6)
    with _Wrong(), consistency.watch(backends=["cpu"], own=True) as w:
        x @ y
        x[1:].add_(1.0)
    assert [(r.operator, r.backend) for r in w.failures] == [
        ("aten.mm", "cpu (this process)"), ("aten.add_", "cpu (this process)"),
    ]  # fmt: skip
    assert "writes to the view are lost" in w.failures[1].explanation


def reasons(block: Any, **options: Any) -> dict[str, int]:
    with consistency.watch(backends=["cpu"], **options) as w:
        block()
    assert not w.failures, str(w)
    said = str(w)
    for reason, count in w.left_out.items():
        assert f"not judged: {count} × {reason}" in said
    return w.left_out


def test_everything_left_out_is_counted_with_its_reason() -> None:
    x = torch.rand(4, 6)
    one = [
        (lambda: x.t()[1:].unsqueeze(0), kinds.VIEW),
        (lambda: torch.rand(3), kinds.RANDOM),
        (lambda: nn.functional.dropout(x, 0.5), kinds.RANDOM),
        (lambda: x.clone().normal_(), kinds.RANDOM),
        (lambda: torch.empty(3), kinds.UNINITIALIZED),
        (lambda: torch.empty_like(x), kinds.UNINITIALIZED),
        (lambda: torch.arange(3), kinds.FACTORY),
        (lambda: torch.zeros_like(x), kinds.FACTORY),
        (lambda: float(x.sum()), kinds.NUMBER),
        (lambda: torch.eye(3).to_sparse().sum(), kinds.UNUSUAL),
        (lambda: x.to("meta"), kinds.DEVICES),
        (lambda: torch.rand(3, device="meta").exp(), kinds.UNUSUAL),
        (lambda: torch.multinomial(x, 1, generator=torch.Generator()), kinds.RANDOM),
    ]
    for block, reason in one:
        assert reason in reasons(block), reason


def test_random_operators_that_draw_nothing_are_judged() -> None:
    q = torch.rand(1, 2, 4, 8)
    with consistency.watch(backends=["cpu+onednn=off"]) as w:
        nn.functional.scaled_dot_product_attention(q, q, q)
        torch.native_dropout(q, 0.5, False)
    assert kinds.RANDOM not in w.left_out
    assert not w.failures
    assert {r.operator for r in w.results} >= {
        "aten._scaled_dot_product_flash_attention_for_cpu",
        "aten.native_dropout",
    }


def test_memory_is_bounded() -> None:
    x = torch.rand(64, 64)

    def block() -> None:
        (x + 1.5).exp()
        x[:4, :4].exp()

    assert reasons(block, largest=1024) == {"a tensor larger than 0.0009766 MiB": 2, kinds.VIEW: 2}
    assert reasons(block, memory=20_000)["more than 0.01907 MiB would be held"] == 1
    with consistency.watch(backends=["cpu"]) as w:
        for _ in range(5):
            torch.exp(x), torch.sin(x)
    assert w.held == x.nbytes  # the same bytes are held once


def test_calls_of_one_kind_are_judged_a_few_times_or_all() -> None:
    xs = [torch.rand(3, 4) for _ in range(5)]

    def count(**options: Any) -> tuple[int, int]:
        with consistency.watch(backends=["cpu"], **options) as w:
            for step, x in enumerate(xs):
                x.exp()
                x.add(x, alpha=0.1 + 0.001 * step)  # a step size that changes is no new kind
                x[:2].exp()
        return len(w.results), w.left_out.get(kinds.REPEATED, 0)

    assert count() == (6, 9)
    assert count(keep=1) == (3, 12)
    assert count(all=True) == (15, 0)


def test_zeros_do_not_take_the_place_of_numbers() -> None:
    """An optimizer's state is all zeros at its first step, of which nothing can be told; its second
    step is looked at, too."""
    state, gradient = torch.zeros(3, 4), torch.rand(3, 4)
    with consistency.watch(backends=["cpu"], keep=1) as w:
        for _ in range(4):
            state.mul_(0.9).add_(gradient)
    of_mul = [r.verdict.value for r in w.results if r.operator == "aten.mul_"]
    assert of_mul == ["inconclusive", "rounding"]
    assert w.left_out == {kinds.REPEATED: 4}


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_fault_in_any_operator_of_a_model_is_found(every: int) -> None:
    with consistency.watch(backends=["cpu"]) as w:
        train(recurrent(), steps=2)
    missed = []
    for operator in list(dict.fromkeys(result.operator for result in w.results))[::every]:
        with consistency.watch(backends=[Faulty(operator)], keep=1) as planted:
            train(recurrent(), steps=2)
        assert {r.operator for r in planted.failures} <= {operator}
        if planted.first is None:
            missed.append(operator)
    assert set(missed) <= {"aten.zero_", "aten.nll_loss_backward"}, (
        missed
    )  # the last column of which is zero


def test_a_block_that_raises_is_not_judged_unless_asked() -> None:
    x = torch.rand(3, 4)
    with pytest.raises(RuntimeError, match="shape"), consistency.watch(backends=["cpu"]) as w:
        x.exp() @ x
    assert w.left_out[kinds.RAISED] == 1
    assert not w.results
    assert "none judged" in str(w)
    w.judge()
    assert [r.operator for r in w.results] == ["aten.exp"]
    assert not w._calls.modules._hooks or not torch.nn.modules.module._global_forward_hooks


def test_calls_of_other_threads_and_contexts() -> None:
    """Backward calls of a thread, autocast, no_grad and inference mode; other modes see the
    program's calls only."""
    layer, x = nn.Linear(4, 3), torch.rand(2, 4)

    class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
        names: list[str]

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            self.names.append(str(func))
            return func(*args, **(kwargs or {}))

    def block() -> None:
        layer(x).sum().backward()
        with torch.autocast("cpu", torch.bfloat16):
            layer(x)
        with torch.no_grad():
            layer(x)
        with torch.inference_mode():
            layer(x).exp()

    plain, watched = Counting(), Counting()
    plain.names, watched.names = [], []
    with plain:
        block()
    layer.zero_grad()
    with watched, consistency.watch(backends=["cpu"], when="now", own=True) as w:
        block()
    # Older versions hand a gradient over without its history where somebody else holds it, too.
    assert [n for n in watched.names if "detach" not in n] == [
        n for n in plain.names if "detach" not in n
    ]
    assert not w.failures, str(w)
    assert {r.dtype for r in w.results} == {"float32", "bfloat16"}

    done = []

    def run_in_thread() -> None:
        with consistency.watch(backends=["cpu"]) as inner:
            train(recurrent())
        done.append(inner.count)

    thread = threading.Thread(target=run_in_thread)
    thread.start()
    thread.join()
    assert done[0] > 100


def test_what_goes_wrong_in_watching_is_told_and_costs_the_program_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from consistency.training.trace import capture

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(capture, "literal", broken)
    with consistency.watch(backends=["cpu"]) as w:
        found = torch.ones(3).exp()
    assert found.shape == (3,)
    assert w.left_out["could not be captured (ZeroDivisionError)"] == 1
    assert "not judged: 1 × could not be captured" in str(w)


def test_watches_may_stand_inside_each_other() -> None:
    x = torch.rand(3, 4)
    with consistency.watch(backends=["cpu"]) as outer:
        x.exp()
        with consistency.watch(backends=["cpu+onednn=off"], when="now") as inner:
            nn.Linear(4, 2)(x)
    assert {r.operator for r in inner.results} == {"aten.addmm"}
    assert {r.operator for r in outer.results} == {"aten.exp", "aten.addmm"}
    assert [c.module for c in outer.calls if c.operator == "aten.addmm.default"] == ["Linear"]


def test_a_single_number_does_not_say_what_is_tested() -> None:
    with consistency.watch(backends=["cpu+onednn=off"]) as w:
        torch.tensor(0.1, dtype=torch.float64) * torch.rand(3, 4)
    assert [(r.dtype, r.verdict.value) for r in w.results] == [("float32", "rounding")]


def test_the_cases_are_a_corpus(tmp_path: Path) -> None:
    with consistency.watch(backends=["cpu"]) as w:
        train(convolutional())
    count = w.save(tmp_path / "corpus")
    assert count == len({call.case.digest for call in w.calls if call.case is not None})
    assert read_header(tmp_path / "corpus").kind == "corpus"
    cases = [entry.case for entry in read_cases(tmp_path / "corpus")]
    assert {case.digest for case in cases} == {r.case.digest for r in w.results}
    assert (
        consistency.record(
            backend="cpu+onednn=off", corpus=tmp_path / "corpus", out=tmp_path / "recorded"
        )
        == count
    )
    run = consistency.judge_recordings(tmp_path / "recorded")
    assert not run.failures
    assert len(run.results) == count
    with pytest.raises(BundleError, match="already holds"):
        w.save(tmp_path / "corpus")


def test_what_was_computed_is_a_recording(tmp_path: Path) -> None:
    x, y = torch.rand(4, 5), torch.rand(5, 6)
    with _Wrong(), consistency.watch(backends=["cpu"], own=True) as w:
        torch.exp(x @ y)
    w.save(tmp_path / "recorded")
    answer = command("judge {} --json {}", tmp_path / "recorded", tmp_path / "rows.jsonl")
    assert answer.exit_code == 1, answer.output
    rows = [
        json.loads(line)
        for line in (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert {(row["operator"], row["verdict"]) for row in rows} == {
        ("aten.mm", "divergent"),
        ("aten.exp", "rounding"),
    }


def test_a_backend_in_a_process_of_its_own() -> None:
    x = torch.rand(4, 5)
    with consistency.watch(backends=["cpu+isolated"]) as w:
        torch.softmax(x @ x.t(), 0)
    assert not w.failures
    assert {(r.operator, r.verdict.value) for r in w.results} == {
        ("aten.mm", "rounding"),
        ("aten._softmax", "rounding"),
    }


def test_an_interruption_keeps_what_was_judged_and_may_be_resumed() -> None:
    class Interrupting(consistency.Backend):
        name = "interrupting"
        calls = 0

        def call(
            self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
        ) -> Any:
            Interrupting.calls += 1
            if Interrupting.calls == 3:
                raise KeyboardInterrupt
            return super().call(operator, args, kwargs)

    def program(x: torch.Tensor) -> None:
        for function in (torch.exp, torch.sin, torch.cos, torch.tanh):
            function(x)

    with pytest.raises(KeyboardInterrupt), consistency.watch(backends=[Interrupting()]) as w:
        program(torch.rand(3, 4))
    assert [r.operator for r in w.results] == ["aten.exp", "aten.sin"]
    w.judge()
    assert [r.operator for r in w.results] == ["aten.exp", "aten.sin", "aten.cos", "aten.tanh"]


def test_an_absent_backend_is_told() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    with consistency.watch(backends=["cuda", "cpu"]) as w:
        torch.rand(3).exp()
    assert "– cuda: cannot run here: " in str(w)
    assert [r.backend for r in w.results] == ["cpu"]


@pytest.mark.parametrize(("options", "words"), [
    ({"when": "later"}, r"when = 'later'; judge 'after' the block, or 'now'"),
    ({"keep": 0}, r"keep = 0; give a whole number of at least 1"),
    ({"memory": 1.5}, r"memory = 1.5; give a whole number of at least 1 \(bytes\)"),
    ({"backends": ["cqu"]}, r"there is no backend 'cqu'"),
])  # fmt: skip
def test_mistakes_are_one_line(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        consistency.watch(**options)


def test_a_watch_is_used_once_at_a_time() -> None:
    w = consistency.watch(backends=["cpu"])
    with w, pytest.raises(UsageError, match="is being used already"):
        w.__enter__()
    with pytest.raises(UsageError, match="is not a result of this watch"):
        w.call_of(consistency.compare(torch.ones(1), operator="exp", args=(torch.zeros(1),)))
