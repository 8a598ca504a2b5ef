"""Mistakes of the comparison itself: each one is found where it was made, told with its remedy, and
nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from consistency.training.bitwise_equality import checksums, differing, digest
from consistency.training.examples import EXAMPLES
from consistency.training.preflight import check, check_pair
from consistency.training.training_task import Subject
from tests.support.snapshots import Snapshot

X = torch.linspace(-1.0, 1.0, 24).reshape(6, 4)


def network(*layers: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), *layers, nn.Linear(5, 2))


def names(subject: Subject, factory: Callable[[], Subject] | None = None) -> list[str]:
    return [mistake.name for mistake in check(subject, factory)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_have_the_mistakes_that_they_show_and_no_other(name: str) -> None:
    shown = {
        "batch-norm-eval-forgotten": ["train-mode"],
        "batch-norm-stale-statistics": ["stale-statistics"],
        "dropout-own-masks": ["random"],
    }
    example = EXAMPLES[name]
    assert names(example(), example) == shown.get(name, [])
    assert example.wrong == (name in shown or name == "autocast-layer-norm")


def test_looking_changes_nothing() -> None:
    for name in ("batch-norm", "dropout-own-masks", "dropout", "lstm"):
        subject = EXAMPLES[name]()
        before, state, given = (
            checksums(subject.model),
            torch.get_rng_state(),
            subject.inputs[0].clone(),
        )
        first = check(subject)
        assert checksums(subject.model) == before
        assert torch.equal(torch.get_rng_state(), state)
        assert torch.equal(subject.inputs[0], given)
        assert all(parameter.grad is None for parameter in subject.model.parameters())
        assert check(subject) == first


class _Forward(nn.Module):
    """A linear layer and whatever a test does beside it."""

    def __init__(self, also: Callable[[_Forward, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.also = nn.Linear(4, 4), also
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.also(self, x)


def _counts(model: _Forward, x: torch.Tensor) -> torch.Tensor:
    model.count += 1
    return model.linear(x)  # type: ignore[no-any-return]


def _writes(model: _Forward, x: torch.Tensor) -> torch.Tensor:
    return model.linear(x.mul_(2.0))  # type: ignore[no-any-return]


def _decays(model: _Forward, x: torch.Tensor) -> torch.Tensor:
    model.linear.weight.data.mul_(0.5)  # unseen by version counters
    return model.linear(x)  # type: ignore[no-any-return]


def _widens(model: _Forward, x: torch.Tensor) -> torch.Tensor:
    return model.linear(x) * torch.from_numpy(np.ones(4))  # type: ignore[no-any-return]


def _noisy(model: _Forward, x: torch.Tensor) -> torch.Tensor:
    return model.linear(x) + torch.randn(4)  # type: ignore[no-any-return]


def _own_generator(model: _Forward, x: torch.Tensor) -> torch.Tensor:
    return model.linear(x) + torch.randn(4, generator=torch.Generator().manual_seed(0))  # type: ignore[no-any-return]


def _scalar(model: _Forward, x: torch.Tensor) -> torch.Tensor:
    # a number: promotes nothing
    return model.linear(x) * torch.tensor(2.0, dtype=torch.float64)  # type: ignore[no-any-return]


def _with(attribute: object, *, registered: bool = False) -> nn.Module:
    model = network()
    if registered:
        assert isinstance(attribute, torch.Tensor)
        model.register_buffer("scale", attribute)
    else:
        model.scale = attribute  # type: ignore[assignment]
    return model


def _closed(scale: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: x * scale


PLANTED: dict[str, tuple[str, Callable[[], Subject], str]] = {
    "dropout in training mode": ("train-mode", lambda: Subject(network(nn.Dropout(0.3)), (X,)),
    'Dropout "1" drops'),
    "batch norm in training mode": ("train-mode", lambda: Subject(network(nn.BatchNorm1d(5)), (X,)),
    'BatchNorm1d "1" normalizes'),
    "dropout trained": ("random", lambda: Subject(network(nn.Dropout(0.3)), (X,), loss=_loss),
    'Dropout "1" draws'),
    "noise": ("random", lambda: Subject(_Forward(_noisy), (X,)),
    "forward draws from torch's global generator"),
    "a counter": ("changed", lambda: Subject(_Forward(_counts), (X,)), "forward changes count"),
    "weights decay": ("changed", lambda: Subject(_Forward(_decays), (X,)),
    "forward changes linear.weight"),
    "input written": ("inputs-changed", lambda: Subject(_Forward(_writes), (X.clone(),)),
    "writes to its input 0"),
    "a NumPy array": ("promoted", lambda: Subject(_Forward(_widens), (X,)),
    "what _Forward returns is float64"),
    "a float64 input": ("promoted", lambda: Subject(network(), (X.double(),)),
    "input 0 is float64"),
    "a float64 target": ("promoted", lambda: Subject(network(), (X,), loss=F.mse_loss, targets=(X[:,
    :2].double(),)), "target 0"),
    "one layer float64": ("mixed-dtypes", lambda: Subject(network(nn.PReLU().double()), (X,)),
    "1.weight is float64"),
    "an attribute": ("not-moved", lambda: Subject(_with(torch.ones(5)), (X,)),
    "leaves scale behind"),
    "a function's": ("not-moved", lambda: Subject(_closed(torch.ones(4)), (X,)),
    "uses scale from around it"),
    "a list of tensors": ("not-moved", lambda: Subject(_with([torch.ones(5)]), (X,)),
    "leaves scale behind"),
    "momentum 0": (
        "stale-statistics", lambda: Subject(network(nn.BatchNorm1d(5, momentum=0.0)), (X,),
        loss=_loss), 'BatchNorm1d "1"'
    ),
    "shuffled": ("data-order", lambda: Subject(network(), batches=_loader(None)),
    "shuffle=True and no generator"),
    "another order": ("data-order", lambda: Subject(network(), (X,), batches=_Shuffling()),
    "batch 0 is another one"),
}  # fmt: skip

HEALTHY: dict[str, Callable[[], Subject]] = {
    "evaluation": lambda: Subject(network(nn.Dropout(0.3), nn.BatchNorm1d(5)).eval(), (X,)),
    "dropout of nothing": lambda: Subject(network(nn.Dropout(0.0)), (X,)),
    "training": lambda: Subject(network(nn.BatchNorm1d(5)), (X,), loss=_loss, steps=3),
    "no running statistics": lambda: Subject(
        network(nn.BatchNorm1d(5, track_running_stats=False)), (X,)
    ),
    "a frozen layer": lambda: Subject(network(nn.BatchNorm1d(5).eval()), (X,), loss=_loss, steps=3),
    "a generator": lambda: Subject(_Forward(_own_generator), (X,)),
    "a number": lambda: Subject(_Forward(_scalar), (X,)),
    "registered": lambda: Subject(_with(torch.ones(5), registered=True), (X,)),
    "a parameter": lambda: Subject(_with(nn.Parameter(torch.ones(5))), (X,)),
    "all float64": lambda: Subject(network().double(), (X.double(),)),
    "all bfloat16": lambda: Subject(network().bfloat16(), (X.bfloat16(),)),
    "batches": lambda: Subject(network(), (X,), batches=[(X,), (X + 1.0,)]),
    "a loader in order": lambda: Subject(network(), (X,), batches=DataLoader(TensorDataset(X), 2)),
    # type: ignore[arg-type]
    "a spectral norm": lambda: Subject(nn.utils.parametrizations.spectral_norm(network()[0]), (X,)),
    "a function": lambda: Subject(torch.sin, (X,)),
    "an LSTM": lambda: EXAMPLES["lstm"](),
}


def _loss(outputs: torch.Tensor) -> torch.Tensor:
    return outputs.square().mean()


def _loader(generator: torch.Generator | None) -> DataLoader[tuple[torch.Tensor, ...]]:
    return DataLoader(TensorDataset(X), 2, shuffle=True, generator=generator)


class _Shuffling:
    """Batches that somebody shuffles anew whenever they are asked for."""

    def __init__(self) -> None:
        self.turn = 0

    def __iter__(self) -> Iterator[tuple[torch.Tensor]]:
        self.turn += 1
        return iter([(X[:3] + self.turn,), (X[3:],)])

    def __len__(self) -> int:
        return 2

    def __getitem__(self, position: int) -> tuple[torch.Tensor]:
        return ((X[:3], X[3:])[position],)


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_mistake_is_told_with_its_remedy(what: str) -> None:
    name, make, words = PLANTED[what]
    found = check(make())
    (mistake,) = (mistake for mistake in found if mistake.name == name)
    assert words in mistake.words
    assert len(mistake.remedy) > 20
    assert str(mistake) == f"{mistake.words}; {mistake.remedy}"
    # Active dropout is both: it is in training mode, and it draws.
    assert {m.name for m in found} <= {name, "random"}


@pytest.mark.parametrize("what", HEALTHY)
def test_what_is_right_is_not_complained_about(what: str) -> None:
    make = HEALTHY[what]
    assert names(make(), make) == []


def test_a_factory_that_forgets_the_seed() -> None:
    generator = torch.Generator()

    def unseeded() -> Subject:
        return Subject(nn.Linear(4, 2), (X,))

    def other_data() -> Subject:
        return Subject(network(), (torch.rand(6, 4, generator=generator),))

    (weights,) = check(unseeded(), unseeded)
    assert weights.name == "other-weights"
    assert "weight differs by up to" in weights.words
    assert "the first of 2 that differ" in weights.words
    assert names(other_data(), other_data) == ["other-inputs"]

    def other_order() -> Subject:
        return Subject(
            network(),
            (X,),
            batches=list(DataLoader(TensorDataset(X), 2, shuffle=True, generator=generator)),
        )  # type: ignore[arg-type]

    assert names(other_order(), other_order) == ["other-inputs"]


def test_tensors_of_every_kind_have_a_digest() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    kinds = [
        x, x.t(), x.bfloat16(), x > 2, x.long(), torch.complex(x, -x), torch.complex(x, -x).conj(),
        x.to_sparse(),
        torch.complex(x, -x).imag, torch.empty(2, 3, device="meta"), torch.zeros(0),
        torch.tensor(1.0), x.expand(4, 2, 3),
    ]  # fmt: skip
    found = [digest(tensor) for tensor in kinds]
    assert len(set(found)) == len(kinds)
    assert found == [digest({"nested": [(tensor,)]}) for tensor in kinds]
    assert digest(x) != digest(x + 1e-7)
    assert digest(x.to_sparse()) != digest((x + 1.0).to_sparse())


def test_two_models_that_should_be_one(snapshot: Snapshot) -> None:
    first, second = network(), network()
    assert check_pair(first, second) == ()
    with torch.no_grad():
        second[1].bias[0] += 0.25  # type: ignore[index, union-attr]
    (mistake,) = check_pair(first, second)
    snapshot(mistake.words, "1")
    assert "load_state_dict" in mistake.remedy
    assert differing(first, network(nn.PReLU())).startswith(
        "1.weight has shape [2, 5] in the first and [1] in the second"
    )
    snapshot(differing(network().double(), first), "2")
    snapshot(differing(first, nn.Sequential(first[0])), "3")


def test_switches(snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = Subject(network(), (X,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (mistake,) = check(subject)
    assert mistake.name == "autocast"
    snapshot(mistake.words)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    assert names(subject) == ["cudnn-benchmark"]
    monkeypatch.undo()
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        (mistake,) = check(subject)
    finally:
        torch.set_float32_matmul_precision(before)
    assert mistake.name == "reduced-precision"
    assert "TF32 in matrix products is on" in mistake.words
    assert names(subject) == []
