"""Models beside float64: healthy ones stay within the band, also chaotic ones; what is planted is
named, with its module."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import consistency
from consistency import Subject, compare_models
from consistency.cli.main import main
from consistency.errors import Divergence, UsageError
from consistency.training.findings import WITHIN
from consistency.training.reference_samples import Distances, Key, ReferenceTrace, TensorSampler
from consistency.training.rounding_envelope import RoundingEnvelope
from tests.support.compared_models import FAULTS, MODELS, Planted, adam, resnet, transformer
from tests.support.paths import ROOT, SUPPORT
from tests.support.snapshots import Snapshot

# Of every kind one: forward, backward, buffer, written in place, the optimizer.
EVERY_DAY = (
    "running statistics untouched", "zero gradient of reduction none", "a permuted layer norm",
    "a lost in-place addition",
    "a filter's gradient", "an optimizer's step lost",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # what is small is slower with two
    yield
    torch.set_num_threads(before)


def planted(name: str) -> None:
    model, operator, nth, fault, module = FAULTS[name]
    report = compare_models(
        MODELS[model](), [Planted(operator, nth, fault)], replicas=2, mistakes=False
    )
    found = report.backends["planted"]
    assert found.first is not None, str(report)
    assert (found.first.operator, found.first.module) == (operator, module), str(report)
    assert found.first.result.verdict.fails
    assert report.verdict.startswith("leaves it at step 1, first at ")
    assert f"first at {operator}" in str(report)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", EVERY_DAY)
def test_a_planted_fault_is_named(name: str) -> None:
    planted(name)


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in FAULTS if name not in EVERY_DAY])
def test_every_planted_fault_is_named(name: str) -> None:
    planted(name)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", MODELS)
def test_a_healthy_model_stays_within_the_band(name: str) -> None:
    report = compare_models(
        MODELS[name](steps=3), ["cpu", "cpu+onednn=off"], replicas=3, mistakes=False
    )
    assert report.verdict == WITHIN, str(report)
    for backend in report.backends.values():
        assert not backend.failures
        assert backend.looked_at > 200
        assert {layer.name for layer in backend.layers} >= {
            name for name, _ in MODELS[name]().model.named_parameters()
        }
        assert [curve.name for curve in backend.curves] == ["loss", "parameters"]
        assert all(curve.steps == (1, 2, 3) for curve in backend.curves)


class Recurrence(nn.Module):
    """tanh(x·W) fifty times: with a gain of 3 it loses its digits."""

    def __init__(self, gain: float, times: int = 50) -> None:
        super().__init__()
        self.weight, self.ratios = nn.Parameter(gain * torch.randn(24, 24) / 24**0.5), times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.ratios):
            x = torch.tanh(x @ self.weight)
        return x


class Logistic(nn.Module):
    """r·x·(1 - x), sixty times: every second step costs a bit or two."""

    def __init__(self) -> None:
        super().__init__()
        self.r = nn.Parameter(torch.tensor(3.99))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(60):
            x = self.r * x * (1.0 - x)
        return x


def chaotic(seed: int) -> None:
    torch.manual_seed(seed)
    lost = []
    for model, inputs in (
        (Recurrence(3.0), torch.randn(2, 24)),
        (Logistic(), torch.rand(5)),
        (Logistic(), torch.rand(1)),
    ):
        report = compare_models((model, inputs), ["cpu", "cpu+onednn=off"], mistakes=False)
        assert report.verdict == WITHIN, str(report)
        (curve,) = report.backends["cpu"].curves
        lost.append(curve.band[0] / abs(curve.reference[0]))
    assert max(lost) > 1e-4  # rounding alone leaves few digits: this is chaos


def test_chaos_is_told_from_a_defect() -> None:
    chaotic(0)


def test_branches_that_only_a_backend_takes_belong_to_the_band() -> None:
    key = Key(1, "output", "relu")
    reference = ReferenceTrace(TensorSampler(1), {key: np.ones(4)})
    near = [Distances(reference, {key: 1e-7}) for _ in range(6)]
    world, far = (
        Distances(reference, {key: 1e-4}),
        [Distances(reference, {key: 2e-4}), Distances(reference, {key: 1e-5})],
    )
    band = RoundingEnvelope(reference, near)
    assert band.ratios(world)[key] == pytest.approx(1e-4 / (1e-6 + 8 * 2.0**-24))
    assert band.with_far(far).ratios(world)[key] == pytest.approx(0.5)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1, 9))
def test_chaos_of_other_seeds_is_told_from_a_defect(seed: int) -> None:
    chaotic(seed)


def test_a_fault_in_a_later_step_is_found_by_going_back() -> None:
    """Of a step whose number is no power of two no call is looked at, until the curves say that
    something happened there."""

    class Late(consistency.Backend):
        name = "late"
        calls = 0

        def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
            found = super().call(operator, args, kwargs)
            if operator.name == "aten.addmm":
                self.calls += 1
                if (self.calls - 1) % 6 >= 4:  # in steps 3 to 6, also of the second pass
                    return found * 1.01
            return found

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
    report = compare_models(
        Subject(model, (torch.randn(5, 6),), optimizer=adam, steps=3),
        [Late()],
        replicas=2,
        mistakes=False,
    )
    found = report.backends["late"]
    assert found.step == 3, str(report)
    assert found.first is not None
    assert (found.first.operator, found.first.module, found.first.step) == (
        "aten.addmm",
        'Linear "0"',
        3,
    )


def test_a_fault_in_a_repetition_of_a_call_is_found_by_looking_at_all() -> None:
    """Of what repeats in a module the first eight calls are looked at, until the curves say that it
    was another one."""

    class Tenth(consistency.Backend):
        name = "tenth"
        calls = 0

        def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
            found = super().call(operator, args, kwargs)
            self.calls += operator.name == "aten.tanh"
            return found * 1.01 if operator.name == "aten.tanh" and self.calls % 12 == 10 else found

    torch.manual_seed(0)
    report = compare_models(
        (Recurrence(0.8, 12), torch.randn(2, 24)), [Tenth()], replicas=2, mistakes=False
    )
    found = report.backends["tenth"]
    assert found.first is not None, str(report)
    assert (found.first.operator, found.first.module, found.step) == ("aten.tanh", "Recurrence", 1)


class Factors(nn.Module):
    """Factors have free signs; what is made of them has none."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values, vectors = torch.linalg.eigh(self.weight + self.weight.mT)
        u, s, v = torch.linalg.svd(self.weight)
        return (
            x @ (vectors * values.tanh()) @ vectors.mT
            + (u * s.log1p()) @ v
            + torch.linalg.det(self.weight)
        )


def test_factors_may_have_other_signs_but_no_other_product() -> None:
    class Eigenvectors(consistency.Backend):
        def __init__(self, name: str, factor: float) -> None:
            self.name, self.factor = name, torch.tensor([1.0, factor, 1.0, 1.0, factor])

        def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
            found = super().call(operator, args, kwargs)
            return (
                (found[0], found[1] * self.factor)
                if operator.name == "aten._linalg_eigh"
                else found
            )

    torch.manual_seed(0)
    given = Subject(Factors(), (torch.randn(3, 5, 5),), optimizer=adam, steps=2)
    report = compare_models(
        given,
        ["cpu", Eigenvectors("turned", -1.0), Eigenvectors("long", 1.001)],
        replicas=2,
        mistakes=False,
    )
    assert [backend.fails for backend in report.backends.values()] == [False, False, True], str(
        report
    )
    (found,) = report.failures
    assert found.first is not None
    assert (found.first.operator, found.first.module) == ("aten._linalg_eigh", "Factors")


class Pair(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass(frozen=True)
class Batch:
    x: Any
    rows: int = 3


def test_what_goes_in_and_comes_out_may_be_of_many_kinds() -> None:
    class Many(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bag, self.layer, self.gru = (
                nn.EmbeddingBag(9, 4, mode="sum", sparse=True),
                nn.Linear(4, 2),
                nn.GRU(2, 2),
            )

        def forward(self, pair: Pair, batch: Batch, sequence: Any) -> Batch:
            found = self.layer(self.bag(batch.x, pair.x) * pair.y)
            return Batch({"found": found, "states": [self.gru(sequence)[1], None]})

    torch.manual_seed(0)
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(4, 2, 2), torch.tensor([4, 2]))
    inputs = (
        Pair(torch.tensor([0, 2]), torch.ones(2, 4)),
        Batch(torch.tensor([1, 3, 3, 8])),
        packed,
    )
    report = compare_models((Many(), inputs), ["cpu"], replicas=2, mistakes=False)
    assert report.verdict == WITHIN, str(report)
    rows = {layer.name: layer for layer in report.backends["cpu"].layers}
    assert {name for name in rows if rows[name].parameter_gradient is not None} >= {
        "bag.weight",
        "layer.bias",
        "gru.bias_hh_l0",
    }
    for loss, words in (
        (lambda o: {"a": o.x["found"].sum()}, "a dict"),
        (lambda o: o.x["found"], r"of shape \[2, 2\]"),
    ):
        with pytest.raises(UsageError, match=f"the loss returns .*{words}"):
            compare_models((Many(), inputs, loss), ["cpu"], mistakes=False)


def test_evaluation_after_training_is_compared_too() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 2)
    )
    subject = Subject(
        model, (torch.randn(8, 4),), optimizer=adam, steps=2, after=lambda m: m.eval()
    )
    report = compare_models(subject, ["cpu"], replicas=2, mistakes=False)
    assert report.verdict == WITHIN, str(report)
    assert "(end)" in {layer.name for layer in report.backends["cpu"].layers}
    assert model.training  # copies are trained, not the model
    assert torch.equal(model[1].running_mean, torch.zeros(6))  # type: ignore[arg-type]


def test_mixed_precision_has_a_wider_band() -> None:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(16, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return self.layer(x).float()

    torch.manual_seed(0)
    model, x = Half(), torch.randn(8, 16)
    wide = compare_models((model, x), ["cpu"], mistakes=False)
    plain = compare_models((model.layer, x), ["cpu"], mistakes=False)
    assert wide.verdict == plain.verdict == WITHIN, str(wide)
    assert wide.curves["cpu"][0].band[0] > 1000.0 * plain.curves["cpu"][0].band[0]


def test_what_cannot_run_a_model_says_so() -> None:
    report = compare_models(
        (nn.Linear(2, 2), torch.ones(1, 2)), ["numpy", "cpu+threads=1"], replicas=2, mistakes=False
    )
    assert "needs torch" in report.backends["numpy"].absent
    assert report.verdict == WITHIN
    assert [backend.name for backend in report.tested] == ["cpu+threads=1"]


def test_a_backend_that_raises_is_told(snapshot: Snapshot) -> None:
    class Raising(consistency.Backend):
        name = "raising"

        def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
            raise RuntimeError("no such kernel")

    report = compare_models(
        (nn.Linear(2, 2), torch.ones(1, 2)), [Raising()], replicas=2, mistakes=False
    )
    snapshot(report.verdict)


TRAINED = """
import torch
from consistency import Subject
def trained():  # without a seed: another process makes other numbers, and gets these
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1), torch.nn.Dropout(0.2)
    )
    return Subject(model, (torch.rand(5, 3),), optimizer=torch.optim.Adam, steps=4)
"""
BAD = SUPPORT / "bad_backends.py"


def compared_apart(tmp_path: Path, *backends: str, **options: Any) -> consistency.ModelReport:
    file = tmp_path / "trained.py"
    file.write_text(TRAINED, encoding="utf-8")
    return compare_models(
        f"{file}:trained", [*backends, "cpu"], replicas=2, mistakes=False, **options
    )


@pytest.mark.nightly
def test_what_ends_a_process_costs_that_backend_only(tmp_path: Path) -> None:
    aborts, hangs = (f"{BAD}:{name}+isolated" for name in ("FailsInModels", "HangsInModels"))
    report = compared_apart(
        tmp_path, aborts, hangs, "cpu@nowhere/python", "numpy+isolated", case_timeout=2.0
    )
    found = report.backends[aborts]
    assert re.match(
        r'crash in aten.addmm in Linear "0" \(call \d+, step 3\): the process ended \(',
        found.verdict,
    ), str(report)
    assert found.first is not None  # what came back before it ended has been judged
    assert (found.first.operator, found.first.module, found.first.step) == (
        "aten.addmm",
        'Linear "0"',
        2,
    )
    found = report.backends[hangs]
    words = r'timeout in aten.addmm in Linear "2" \(call \d+, step 2\): no answer within 2 s'
    assert re.fullmatch(words, found.verdict), str(report)
    assert not found.failures
    (loss,) = (curve for curve in found.curves if curve.name == "loss")
    assert (loss.steps, loss.leaves) == ((1,), 0)
    assert report.backends["cpu"].verdict == WITHIN
    assert report.verdict.startswith("crash in ")
    assert "could not be started" in report.backends["cpu@nowhere/python"].absent
    assert "numpy computes single operators" in report.backends["numpy+isolated"].absent


@pytest.mark.nightly
def test_a_model_in_a_process_of_its_own_gives_the_same_numbers(tmp_path: Path) -> None:
    report = compared_apart(tmp_path, "cpu+isolated", f"cpu@{sys.executable}+env:OMP_NUM_THREADS=1")
    here = report.backends["cpu"]
    for backend in report.tested:
        assert backend.verdict == WITHIN, str(report)
        assert (backend.curves, backend.layers) == (here.curves, here.layers)
        assert (backend.calls, backend.looked_at, backend.judged) == (
            here.calls,
            here.looked_at,
            here.judged,
        )
    assert len(report.tested) == 3


def test_what_cannot_be_made_once_more_says_so(tmp_path: Path) -> None:
    report = compare_models(
        (nn.Linear(2, 2), torch.ones(1, 2)), ["cpu+isolated", "cpu"], replicas=2, mistakes=False
    )
    assert "give the target as 'module:factory'" in report.backends["cpu+isolated"].absent
    with pytest.raises(UsageError, match="case_timeout = 0"):
        compared_apart(tmp_path, case_timeout=0.0)


def test_pytest_gets_an_assertion_error() -> None:
    assert (
        consistency.assert_models_match(
            (nn.Linear(2, 2), torch.ones(1, 2)), ["cpu"], replicas=2
        ).verdict
        == WITHIN
    )
    _, operator, nth, fault, _ = FAULTS["a permuted layer norm"]
    with pytest.raises(
        Divergence,
        match=r"\Atransformer: leaves it at step 1, first at aten.native_layer_norm in LayerNorm",
    ) as raised:
        consistency.assert_models_match(
            transformer(), [Planted(operator, nth, fault)], replicas=2, mistakes=False
        )
    assert raised.value.results[0].operator == operator  # type: ignore[attr-defined]
    with pytest.raises(Divergence, match="numpy"):
        consistency.assert_models_match(
            (nn.Linear(2, 2), torch.ones(1, 2)), ["numpy"], replicas=2, mistakes=False
        )


FACTORY = """
import torch
def small():
    torch.manual_seed(0)
    return torch.nn.Linear(3, 2), (torch.ones(4, 3),)
def nothing():
    return 7
def broken():
    raise ValueError("no data")
"""


def test_the_command(tmp_path: Path) -> None:
    file, run = tmp_path / "mine.py", CliRunner()
    file.write_text(FACTORY, encoding="utf-8")
    out = tmp_path / "found.json"
    options = [
        "--backend",
        "cpu",
        "--replicas",
        "2",
        "--steps",
        "2",
        "--json",
        str(out),
        "-o",
        str(tmp_path / "page.html"),
    ]
    done = run.invoke(main, ["model", f"{file}:small", *options])
    assert done.exit_code == 0, done.output
    assert "Linear: within the band" in done.output
    found = json.loads(out.read_text(encoding="utf-8"))
    assert (found["verdict"], found["steps"]) == (WITHIN, 2)
    assert [curve["name"] for curve in found["backends"][0]["curves"]] == ["loss", "parameters"]
    assert "within the band" in (tmp_path / "page.html").read_text(encoding="utf-8")
    for target, words in (
        (f"{file}:nothing", "is an int; expected a Subject"), (f"{file}:broken",
        "raised ValueError: no data"),
        (f"{file}:smal", "did you mean small?"),
        ("small", "give module:factory"), (f"{tmp_path / 'other.py'}:x", "there is no file"),
        ("examples:nonsense", "there is no example 'nonsense'"),
    ):  # fmt: skip
        failed = run.invoke(main, ["model", target, "--backend", "cpu"])
        assert failed.exit_code == 2, failed.output
        assert words in failed.output
    assert (
        run.invoke(
            main, ["model", f"{file}:small", "--backend", "numpy", "--replicas", "2"]
        ).exit_code
        == 3
    )


def test_a_tensor_stands_for_a_tuple_of_one() -> None:
    mse = nn.functional.mse_loss
    given = Subject(nn.Linear(2, 2), torch.ones(3, 2), loss=mse, targets=torch.ones(3, 2))  # type: ignore[arg-type]
    assert compare_models(given, ["cpu"], replicas=2, mistakes=False).verdict == WITHIN


def test_mistakes_in_arguments_are_one_clear_line() -> None:
    given = (nn.Linear(2, 2), torch.ones(1, 2))
    for options, words in (
        ({"steps": -1}, "steps = -1"), ({"replicas": 1}, "a band needs 2"), ({"backends": []},
        "no backend is named"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=words):
            compare_models(given, **{"backends": ["cpu"], **options})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="its inputs are missing"):
        compare_models(nn.Linear(2, 2), ["cpu"])
    once = ((torch.ones(1, 2),) for _ in range(2))
    for batches, words in (
        (5, "its batches are an int"),
        ([], "its batches are empty"),
        (once, "gone through only once"),
    ):
        with pytest.raises(UsageError, match=words):
            compare_models(Subject(nn.Linear(2, 2), batches=batches, steps=2), ["cpu"])  # type: ignore[arg-type]

    class Gone(torch.utils.data.Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, place: int) -> torch.Tensor:
            raise OSError("no such file")

    lost = Subject(nn.Linear(2, 2), batches=torch.utils.data.DataLoader(Gone()), steps=2)  # type: ignore[arg-type]
    for mistakes in (True, False):
        with pytest.raises(
            UsageError, match="going through the batches raises OSError: no such file"
        ):
            compare_models(lost, ["cpu"], mistakes=mistakes)
    weight = nn.Parameter(torch.ones(2, 2))
    with pytest.raises(
        UsageError,
        match=r"in float64 the model raises .* \(perhaps because .* uses weight from around it",
    ):
        compare_models((lambda x: x @ weight, torch.ones(1, 2)), ["cpu"])

    class Leaves(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise SystemExit(3)

    with pytest.raises(UsageError, match="on the CPU the model raises SystemExit: 3"):
        compare_models((Leaves(), torch.ones(1, 2)), ["cpu"])
    with pytest.raises(UsageError, match="its loss is an int"):
        compare_models((nn.Linear(2, 2), torch.ones(1, 2), 3), ["cpu"])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("make", [torch.optim.LBFGS, torch.optim.RMSprop, torch.optim.AdamW])
def test_any_optimizer(make: Any) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
    subject = Subject(model, (torch.randn(8, 4),), optimizer=lambda p: make(p, lr=0.01), steps=2)
    report = compare_models(subject, ["cpu"], replicas=3, mistakes=False)
    assert report.verdict == WITHIN, str(report)
    assert [curve.steps for curve in report.backends["cpu"].curves] == [(1, 2), (1, 2)]


def test_a_model_that_loses_its_numbers_in_float64_too_is_told() -> None:
    class Negative(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.log(-x)

    report = compare_models((Negative(), torch.ones(3)), ["cpu"], replicas=2, mistakes=False)
    assert "float64 itself has no finite loss" in str(report)


def benchmark(*words: str) -> str:
    script = ROOT / "benchmarks" / "models.py"
    environment = os.environ | {"PYTHONPATH": str(script.parent.parent), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(script), *words],
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
        timeout=1800,
    )
    return done.stdout


@pytest.mark.nightly
def test_the_local_check_costs_at_most_four_passes() -> None:
    rows = re.findall(r"^(ResNet-18|transformer).*overhead +([\d.]+) ×", benchmark(), re.MULTILINE)
    assert len(rows) == 4
    assert all(float(times) <= 4.0 for _, times in rows), rows


@pytest.mark.nightly
def test_a_hundred_million_parameters_stay_under_six_gigabytes() -> None:
    (found,) = re.findall(
        r"100,183,776 parameters: ([\d.]+) GB beside the model", benchmark("memory")
    )
    assert float(found) < 6.0


def test_nothing_outside_is_changed() -> None:
    subject = resnet(steps=2)
    before = {name: value.clone() for name, value in subject.model.state_dict().items()}
    state, default = torch.get_rng_state(), torch.get_default_dtype()
    compare_models(subject, ["cpu"], replicas=2, mistakes=False)
    assert all(
        torch.equal(value, before[name]) for name, value in subject.model.state_dict().items()
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_default_dtype() == default
