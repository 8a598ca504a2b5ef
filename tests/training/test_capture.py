"""A model's calls as a corpus: small, of the same shapes and scales, and true to what the model's
own numbers would tell."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn

import consistency
from consistency.core.recipe import Literal, TensorRecipe
from consistency.errors import BundleError
from consistency.generate.materialize import prepare
from consistency.operators.catalog.aten import has_coupled_arguments
from consistency.storage.cases import read_cases
from consistency.storage.recording.header import read_header
from consistency.training.capture import record
from consistency.training.examples import EXAMPLES
from consistency.training.trace import corpus, kinds
from consistency.training.trace.recipes import range_of, recipe_like
from consistency.training.training_task import Subject
from tests.support.architectures import SMALL


def built(tensor: torch.Tensor, before: int = 64) -> tuple[TensorRecipe, torch.Tensor]:
    """The recipe of a tensor, and the tensor that a case with it would get."""
    found = recipe_like(tensor, 1 << 12, before)
    assert found is not None
    case = consistency.Case("aten.neg", found.dtype, (found,), source="aten/neg.default")
    return found, prepare(consistency.Case.from_line(case.line)).build().tensors[0]


BASE = torch.linspace(-3.0, 5.0, 3 * 8 * 6 * 10).reshape(3, 8, 6, 10)
LAYOUTS = {
    "contiguous": BASE,
    "transposed": BASE[0, 0].t(),
    "permuted": BASE.permute(2, 0, 3, 1),
    "channels last": BASE.to(memory_format=torch.channels_last),
    "expanded": BASE[:, :1].expand(3, 8, 6, 10),
    "every second": BASE[:, ::2],
    "a slice of a slice": BASE[1:, 2:5][:, :, 1:],
    "0-d": BASE[1, 2, 3, 4],
    "one number wide": BASE[:, :1],
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_shape_and_strides_are_kept(name: str) -> None:
    tensor = LAYOUTS[name]
    _, found = built(tensor)
    assert (found.shape, found.stride(), found.dtype) == (
        tensor.shape,
        tensor.stride(),
        tensor.dtype,
    )
    assert found.storage_offset() == min(tensor.storage_offset(), 64)


def _drawn(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


NORMAL = torch.randn(4096, generator=_drawn())
NUMBERS = {
    "normal": (NORMAL, "normal"),
    "positive": (NORMAL.abs() + 1e-4, "uniform"),
    "negative": (-NORMAL.abs(), "uniform"),
    "a large mean": (NORMAL * 0.01 + 100.0, "normal"),
    "even": (torch.rand(4096, generator=_drawn()), "uniform"),
    "half zeros": (NORMAL.relu(), "tokens"),
    "all the same": (torch.full((4096,), 0.3), "uniform"),
    "squares of gradients": ((NORMAL * torch.logspace(-8, 0, 4096)).square(), "wide"),
    "gradients": (NORMAL * torch.logspace(-8, 0, 4096), "wide"),
    "float64": (NORMAL.double(), "normal"),
    "bfloat16": (NORMAL.bfloat16(), "normal"),
    "float16": (NORMAL.half(), "normal"),
    "places": (torch.randint(0, 50, (4096,), generator=_drawn()), "integers"),
    "a mask": (torch.rand(4096, generator=_drawn()) < 0.5, "integers"),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_signs_range_and_zeros_are_kept(name: str) -> None:
    tensor, kind = NUMBERS[name]
    recipe, found = built(tensor)
    assert recipe.values[0] == kind
    assert found.dtype == tensor.dtype
    real, drawn = tensor.double(), found.double()
    assert drawn.min() >= real.min()
    assert drawn.max() <= real.max()
    assert torch.isfinite(drawn).all()
    largest = (float(values.abs().max()) for values in (drawn, real))
    assert next(largest) >= next(largest) / 4
    assert bool((drawn == 0).double().mean() > 0.15) == bool((real == 0).double().mean() > 0.15)
    if kind == "wide":
        assert 0.1 < float(drawn.abs().log().median() / real.abs().log().median()) < 10


def test_what_cannot_be_drawn_stays_as_it_is() -> None:
    assert recipe_like(torch.tensor([1.0, math.nan]), 0) is None
    assert recipe_like(torch.tensor([1.0, -math.inf]), 0) is None
    assert recipe_like(torch.zeros(3, dtype=torch.complex64), 0) is None
    assert recipe_like(torch.zeros(0), 0) is None


def test_ranges() -> None:
    assert range_of(NORMAL) == range_of(NORMAL * 1.01)
    for other in (NORMAL * 8, NORMAL.abs(), torch.zeros(3), torch.tensor([math.inf])):
        assert range_of(other) != range_of(NORMAL)
    assert range_of(torch.arange(3)) == range_of(torch.arange(9)) == ()


def test_what_belongs_together() -> None:
    assert has_coupled_arguments("_scaled_dot_product_flash_attention_for_cpu_backward")
    assert has_coupled_arguments("max_pool2d_with_indices_backward")
    assert has_coupled_arguments("linalg_cholesky_ex")
    for base in (
        "convolution",
        "convolution_backward",
        "addmm",
        "relu_",
        "gelu_backward",
        "native_layer_norm_backward",
        "_foreach_add_",
    ):
        assert not has_coupled_arguments(base), base
    assert not has_coupled_arguments(
        "linalg_vector_norm"
    )  # of the gradients that are to be clipped


@pytest.fixture(scope="module", params=SMALL)
def captured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, corpus.SavedCalls]:
    """The corpus of an architecture, with nearly everything as recipes."""
    folder = tmp_path_factory.mktemp("corpus") / request.param
    return folder, record(SMALL[request.param](), folder, literal=512)


def test_a_model_becomes_a_corpus(captured: tuple[Path, corpus.SavedCalls]) -> None:
    folder, kept = captured
    header, cases = read_header(folder), [entry.case for entry in read_cases(folder)]
    assert (header.kind, header.complete, header.settings["source"], header.settings["calls"]) == (
        "corpus",
        True,
        "model",
        kept.calls,
    )
    assert len(cases) == len({case.digest for case in cases}) == kept.cases
    assert kept.covered == kept.operators == len({case.source for case in cases})
    assert kept.calls > 2 * kept.cases
    assert (
        sum(isinstance(t, TensorRecipe) for case in cases for t in case.tensors) == kept.recipes > 0
    )
    for case in cases:
        large = [t for t in case.tensors if isinstance(t, Literal) and math.prod(t.shape) > 128]
        assert (
            not large
            or has_coupled_arguments(case.operator.removeprefix("aten."))
            or any(not t.dtype.startswith(("float", "int")) for t in large)
        )
    assert kept.size == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "captured",
    [pytest.param(name, marks=pytest.mark.nightly if name == "resnet18" else ()) for name in SMALL],
    indirect=True,
)
def test_replayed_elsewhere_nothing_fails(
    captured: tuple[Path, corpus.SavedCalls], tmp_path: Path
) -> None:
    folder, kept = captured
    consistency.record(backend="cpu+onednn=off", corpus=folder, out=tmp_path / "recording")
    run = consistency.judge_recordings(tmp_path / "recording")
    assert [result.explanation for result in run.failures] == []
    assert len(run.results) == kept.cases
    tested = [result for result in run.results if result.verdict.tested]
    assert len(tested) > 0.9 * kept.cases


def test_calls_of_one_operator_are_judged_each_by_what_is_known_of_it(tmp_path: Path) -> None:
    """float32 holds 0.5 and not 0.0316…, by which torch divides as by a rounded number: two budgets
    for one operator."""

    class Divides(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x / 0.5) / 0.1**1.5  # type: ignore[no-any-return]

    record(Subject(Divides(), (torch.rand(16, 16, generator=_drawn()),)), tmp_path / "corpus")
    run = consistency.run(backends=["cpu"], corpus=tmp_path / "corpus")
    assert [result.explanation for result in run.failures] == []
    assert len({result.family for result in run.results if result.operator == "aten.div"}) == 2


def test_the_model_is_left_as_it_was_and_large_tensors_are_not_held(tmp_path: Path) -> None:
    subject = EXAMPLES["batch-norm"]()
    before, state = (
        {k: v.clone() for k, v in subject.model.state_dict().items()},
        torch.get_rng_state(),
    )
    record(subject, tmp_path / "corpus")
    assert all(torch.equal(v, before[k]) for k, v in subject.model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert subject.model.training
    operators = {entry.case.operator for entry in read_cases(tmp_path / "corpus")}
    assert {"aten.native_batch_norm", "aten.native_batch_norm_backward", "aten.add_"} <= operators
    with pytest.raises(BundleError, match="already holds a recording"):
        record(subject, tmp_path / "corpus")
    kept = record(
        Subject(nn.Linear(2048, 2048), (torch.zeros(1, 2048),)), tmp_path / "large"
    )  # 16 MiB
    assert kept.size < 200_000
    assert kept.left_out.get(kinds.REPEATED, 0) == 0


def test_calls_in_other_ranges_are_kept(tmp_path: Path) -> None:
    class Scales(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return sum(torch.exp(x * 2.0**power) for power in (0, 0, 1, 2, -4, -8, -9))  # type: ignore[no-any-return]

    kept = record(Subject(Scales(), (torch.linspace(-1.0, 1.0, 9),)), tmp_path / "corpus")
    cases = [
        entry.case for entry in read_cases(tmp_path / "corpus") if entry.case.operator == "aten.exp"
    ]
    assert len(cases) == corpus.RANGES
    assert kept.left_out[corpus.OTHER_RANGES] >= 2
    assert kept.left_out[kinds.REPEATED] >= 1
