"""What people try first: a model, a lambda around it, a tensor from around the function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import consistency
from consistency import Divergence, UsageError
from consistency.api.captured_tensors import captured_by


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


W, X = drawn(8, 4), drawn(5, 8, seed=1)


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


class Wrong(consistency.TorchBackend):
    name, device = "wrong", "cpu"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        return super().call(operator, args, kwargs) * 1.001


class Holder:
    def __init__(self) -> None:
        self.weight = W

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight

    def applied(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


@dataclass(frozen=True)
class Frozen:
    weight: torch.Tensor

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


def of_a_global(x: torch.Tensor) -> torch.Tensor:
    return x @ W


def through_another(x: torch.Tensor) -> torch.Tensor:
    return of_a_global(x) + 1.0


def with_default(x: torch.Tensor, weight: torch.Tensor = W) -> torch.Tensor:
    return x @ weight


def nested() -> Callable[[torch.Tensor], torch.Tensor]:
    held = {"weights": [(Pair(W, W[0]), 3)], "space": SimpleNamespace(bias=W[0])}

    def inner(x: torch.Tensor) -> torch.Tensor:
        pair: Any = held["weights"][0][0]  # type: ignore[index]
        return x @ pair.first + pair.second + held["space"].bias  # type: ignore[attr-defined]

    return lambda x: inner(x)


WAYS: dict[str, Callable[[], Callable[..., Any]]] = {
    "model": model,
    "lambda around a model": lambda: functools.partial(lambda m, x: m(x), model()),
    "bound method": lambda: model().forward,
    "matrix": lambda: lambda x: x @ W,
    "global": lambda: of_a_global,
    "global of a function": lambda: through_another,
    "default": lambda: with_default,
    "partial": lambda: functools.partial(F.linear, weight=W.t()),
    "object": Holder,
    "method of an object": lambda: Holder().applied,
    "frozen dataclass": lambda: Frozen(W),
    "nested containers": nested,
    "lstm": lambda: nn.LSTM(8, 4),
    "attention": lambda: lambda x: nn.functional.scaled_dot_product_attention(x @ W, x @ W, x @ W),
    "batch norm in training": lambda: nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4)),
    "a table made within": lambda: lambda x: x @ torch.eye(8),
    "a fixed format": lambda: lambda x: x @ W + torch.ones(4, dtype=torch.float32),
    "weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(8, 4)),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_what_people_try_first_is_judged_and_faults_are_found(way: str) -> None:
    function = WAYS[way]()
    results = consistency.assert_consistent(function, X, backends=["cpu"])
    assert [r.verdict.value for r in results] in (["rounding"], ["exact"])
    if way == "lstm":  # returns a tuple, which this backend cannot scale
        return
    with pytest.raises(Divergence) as caught:
        consistency.assert_consistent(function, X, backends=[Wrong()])
    # Nothing proves what weight norm's own kernel should give: no accusation, and no pass.
    expected = "inconclusive" if way == "weight norm" else "divergent"
    assert caught.value.results[0].verdict.value == expected  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", ["model", "lambda around a model", "matrix", "weight norm"])
def test_gradients_reach_the_parameters(way: str) -> None:
    forward, backward = consistency.assert_consistent(
        WAYS[way](), X, backends=["cpu"], directions=("forward", "backward")
    )
    outputs = backward.comparison.outputs if backward.comparison is not None else ()
    expected = {"model": 7, "lambda around a model": 7, "matrix": 1, "weight norm": 4}[way]
    assert (len(outputs), forward.verdict.passes, backward.verdict.passes) == (expected, True, True)


def test_everything_is_put_back() -> None:
    module, pair = model(), Pair(W, W)
    held = [pair, (1, W)]
    before = dict(module.named_parameters())
    captured = captured_by(module, lambda: held)
    others = {name: torch.zeros(1) for name in captured.tensors}

    def within() -> None:
        with captured.replaced(others):
            assert all(p is others[name] for name, p in module.named_parameters())
            assert isinstance(held[0], Pair)
            assert held[0].first is held[0].second is others["held[0][0]"]
            raise KeyError

    with pytest.raises(KeyError):
        within()
    assert all(before[name] is p for name, p in module.named_parameters())
    assert held[0] is pair
    assert held[1][1] is W  # type: ignore[index]


def test_a_module_among_the_arguments() -> None:
    def applied(network: nn.Module, x: torch.Tensor, *, scale: nn.Module) -> torch.Tensor:
        return scale(network(x))  # type: ignore[no-any-return]

    results = consistency.assert_consistent(applied, model(), X, scale=nn.LayerNorm(4))
    assert results[0].verdict.passes


def test_tokens_are_judged_in_the_dtype_of_the_weights() -> None:
    embedding = nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 3))
    (result,) = consistency.assert_consistent(embedding, torch.tensor([[1, 2, 3]]))
    assert (result.dtype, result.verdict.value) == ("float32", "rounding")


def test_running_statistics_are_compared() -> None:
    class Stale(consistency.TorchBackend):
        name, device = "stale", "cpu"

        def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
            mean = kwargs["captured_running_mean"]
            before = mean.clone()
            out = super().call(operator, args, kwargs)
            mean.copy_(before)
            return out

    norm = nn.BatchNorm1d(8)
    consistency.assert_consistent(norm, X)
    assert not norm.running_mean.any()  # type: ignore[union-attr, operator]
    with pytest.raises(Divergence, match="arg/"):
        consistency.assert_consistent(norm, X, backends=[Stale()])


def test_a_reference_captures_too() -> None:
    weight = W.clone()
    consistency.assert_consistent(
        lambda x: x @ weight, X, reference=lambda x: F.linear(x, weight.t())
    )
    other = W.clone() + 0.01
    with pytest.raises(Divergence):
        consistency.assert_consistent(lambda x: x @ weight, X, reference=lambda x: x @ other)


def test_random_numbers_are_one_sentence() -> None:
    dropping = nn.Sequential(nn.Linear(8, 8), nn.Dropout())
    with pytest.raises(UsageError, match="draws random numbers"):
        consistency.assert_consistent(dropping, X)
    assert consistency.assert_consistent(dropping.eval(), X)[0].verdict.passes


def test_a_tensor_that_cannot_be_taken_along_is_named() -> None:
    sparse = W.to_sparse()
    with pytest.raises(UsageError, match=r"uses sparse from around it, .* give a strided tensor"):
        consistency.assert_consistent(lambda x: torch.sparse.mm(sparse.t(), x.t()), X)
    generated = (item for item in (W,) * 20)  # not looked into
    with pytest.raises(UsageError, match=r"gets a float32 tensor of shape \[8, 4\]"):
        consistency.assert_consistent(lambda x: x @ next(generated), X)


@pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:FutureWarning")  # 2.15
def test_a_scripted_module_is_named() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(W)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight

    traced = torch.jit.trace(Plain(), X)
    with pytest.raises(UsageError, match="scripted module"):
        consistency.assert_consistent(traced, X)


def test_a_kept_result_has_a_script(tmp_path: Path) -> None:
    weight = W.clone()

    def product(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x @ weight)

    with pytest.raises(Divergence) as caught:
        consistency.assert_consistent(product, X, backends=[Wrong()])
    result: Any = caught.value.results[0]
    folder = consistency.save(result, tmp_path / "kept", fn=product)
    script = (folder / "repro.py").read_text(encoding="utf-8")
    assert "captured_weight" in script
    assert "cannot be shown" not in script
