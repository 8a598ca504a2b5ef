"""Which cases from elsewhere are run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from consistency import operators
from consistency.core.foreign import VARIABLE, Bounds, active, bounded
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.core.tiling import Tiling
from consistency.errors import ConsistencyError
from consistency.generate import search
from consistency.generate.calls import admission
from consistency.generate.calls.case_operator import operator_of
from consistency.generate.calls.kernels import kernels
from consistency.operators.catalog import functions, kernel_arguments
from consistency.operators.catalog.allowed import KERNELS, allows_function, allows_kernel
from tests.support.foreign_attacks import ATTACKS, case, integers, tensor


@pytest.fixture
def foreign() -> Iterator[None]:
    with bounded(Bounds()):
        yield


def reason_of(line: str) -> str:
    found = Case.from_line(line)
    return admission.refusal(found, operator_of(found))


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.usefixtures("foreign")
def test_attacks_are_refused_before_they_run(name: str) -> None:
    try:
        reason = reason_of(ATTACKS[name])
    except ConsistencyError as error:
        reason = str(error)
    assert reason
    assert "\n" not in reason
    assert len(reason) < 500


@pytest.mark.usefixtures("foreign")
def test_a_bound_is_named_with_what_was_asked_for() -> None:
    assert reason_of(ATTACKS["exp"]) == (
        "exp · float32 asks for 10.7 GB of memory (268,435,456 numbers); a case from elsewhere "
        "may take 1 GB and 10 s; if you trust it, add --trust"
    )
    assert reason_of(ATTACKS["data-ptr"]) == (
        "'Tensor.data_ptr' is not among the calls that a case from elsewhere may make; if you "
        "trust it, add --trust"
    )


@pytest.mark.usefixtures("foreign")
def test_the_repetitions_of_a_large_case_count() -> None:
    tiling = Tiling(1 << 28, 257, (0, 0), (0,))
    tensors = (TensorRecipe((257, 3), "float32"), TensorRecipe((257, 3), "float32"))
    large = Case("add", "float32", tensors, tiling=tiling)
    assert "of memory" in admission.refusal(large, operators.get("add"))
    pairs = replace(large, operator="cdist", tiling=replace(tiling, size=1 << 16))
    assert "of memory" in admission.refusal(pairs, operators.get("cdist"))
    small = replace(large, tiling=replace(tiling, size=1 << 16))
    assert not admission.refusal(small, operators.get("add"))


HEALTHY = [
    case("aten/addmm.default", tensor(4), tensor(3, 5), tensor(5, 4)),
    case("aten/native_layer_norm_backward.default", tensor(4, 8), tensor(4, 8), [8], tensor(4, 1),
         tensor(4, 1), tensor(8), tensor(8), [True, True, True]),
    case("aten/native_batch_norm.default", tensor(2, 3, 4), tensor(3), tensor(3), tensor(3),
         tensor(3), True, 0.1, 1e-5),
    case("aten/max_pool2d_with_indices_backward.default", tensor(1, 1, 4, 4), tensor(1, 1, 8, 8),
         [2, 2], [2, 2], [0, 0], [1, 1], False, integers(1, 1, 4, 4, low=0, high=63)),
    case("aten/nll_loss_backward.default", tensor(), tensor(4, 3), integers(4, low=0, high=2), None,
         1, -100, tensor()),
    case("aten/embedding_dense_backward.default", tensor(2, 4), integers(2, low=0, high=3), 4, -1,
         False),
    case("aten/_fft_c2r.default", tensor(5, dtype="complex64"), [0], 0, 8, dtype="complex64"),
    case("call/torch.lu_unpack", tensor(4, 4), tensor(4, dtype="int32",
         values=["integers", 1, 4])),
    case("call/operator.add", tensor(4), 2), case("call/operator.getitem", tensor(4), 2),
    case("call/torch.layer_norm", tensor(4, 4), [4]),
    case("call/Tensor.relu", tensor(4)), case("call/Tensor.double", tensor(4)),
    case("call/torch.nn.functional.pad", tensor(4), [1, 2]), case("call/torch.ones", [4, 4]),
    case("matmul", tensor(256, 256), tensor(256, 256)),
]  # fmt: skip


@pytest.mark.parametrize("line", HEALTHY)
@pytest.mark.usefixtures("foreign")
def test_healthy_calls_of_the_same_kind_are_run(line: str) -> None:
    assert reason_of(line) == ""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", sorted(operators.registry())[::23])
@pytest.mark.usefixtures("foreign")
def test_every_drawn_case_is_run(name: str) -> None:
    operator = operators.get(name)
    for found in search.batch(operator, operator.dtypes[0], 4, 0):
        assert admission.refusal(found, operator) == ""


def test_other_processes_admit_everything() -> None:
    assert active() is None
    assert reason_of(ATTACKS["reshape-alias"]) == ""
    with bounded(Bounds(10**6, 2.5)):
        assert active() == Bounds(10**6, 2.5)
    assert active() is None


def test_a_damaged_variable_means_the_usual_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "nonsense")
    assert active() == Bounds()


def test_kernels_of_traces_are_listed() -> None:
    # Kernels of other devices that take a workspace of theirs.
    unlisted = {name for name in kernels() if not allows_kernel(name)}
    assert unlisted <= {"mkldnn_rnn_layer", "mkldnn_rnn_layer_backward"}


def test_listed_kernels_exist_in_some_version() -> None:
    there = [name for name in KERNELS if hasattr(torch.ops.aten, name)]
    assert len(there) > 0.9 * len(KERNELS)


def test_every_condition_belongs_to_a_kernel() -> None:
    for name in kernel_arguments.CHECKS:
        assert allows_kernel(name)
        assert hasattr(torch.ops.aten, name) or torch.__version__ < "2.13"


def test_most_public_functions_are_allowed() -> None:
    names = [*functions._functions(), *(f"Tensor.{name}" for name in functions._methods())]
    allowed = [name for name in names if allows_function(name)]
    assert len(allowed) > 0.9 * len(names)
    assert "Tensor.data_ptr" in names
    assert "Tensor.data_ptr" not in allowed
