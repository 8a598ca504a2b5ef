"""What no definition decides is not proved: whether a NaN is left out behind a mask or in padding,
or is multiplied by 0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from consistency import operators
from consistency.backends import resolve
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.core.verdict import VerdictKind
from consistency.diagnose.case_runner import judge_case
from consistency.generate.materialize import prepare
from consistency.judge import tolerances
from consistency.reference import Reference, quiet
from tests.support.catalog.model import Played

UNIFORM = ("uniform", -1.0, 1.0)
FORWARD = ("forward",)


def proved(case: Case, position: int, direction: str = "forward") -> Any:
    """The certificate of an element of the first output; None where there is none."""
    reference = Reference(operators.get(case.operator), prepare(case), direction)
    reference.proofs.settle(0, [position])
    return reference.proofs.certificates.get((0, position))


def attended(visible: int, *special: tuple[int, str]) -> Case:
    """Two queries of two numbers, NaN where ``special`` says so; three keys, of which the first
    ``visible`` are seen."""
    query = TensorRecipe((1, 2, 2), "float32", UNIFORM, 2007, special=special)
    key, value = (TensorRecipe((1, 3, 2), "float32", UNIFORM, stop) for stop in (3007, 4007))
    seen = ("leading", 0.0, 0.0, visible, "1") if visible else ("integers", 0, 0)
    mask = TensorRecipe((1, 3), "bool", seen, 5007)
    return Case(
        "nn.functional.scaled_dot_product_attention", "float32", (query, key, value),
        {"attn_mask": mask},
    )  # fmt: skip


def test_nothing_visible_is_zero() -> None:
    certificate = proved(attended(0), 0)
    assert certificate is not None
    assert certificate.high == 0.0


def test_nor_is_it_decided_beside_a_query_of_nan() -> None:
    case = attended(0, (0, "nan"))
    assert proved(case, 0) is None  # −∞ in the place of NaN gives 0, −∞ added to it NaN
    assert proved(case, 2) is not None  # the other query has no NaN


def convolved(
    padding: int, *special: tuple[int, str], operator: str = "nn.functional.conv1d"
) -> Case:
    image = TensorRecipe((1, 1, 6), "float64", UNIFORM, 2007)
    weight = TensorRecipe((1, 1, 3), "float64", UNIFORM, 3007, special=special)
    return Case(operator, "float64", (image, weight), {"padding": padding}, cotangent=900)


SPOILED = [("nn.functional.conv1d", "forward"), ("nn.functional.conv_transpose1d", "backward")]


@pytest.mark.parametrize(("operator", "direction"), SPOILED)
def test_a_number_that_a_zero_of_padding_spoils(operator: str, direction: str) -> None:
    """torch's CPU multiplies a NaN of the kernel with the zeros around an image: here the first
    number of a kernel meets nothing else."""
    assert proved(convolved(1, (0, "nan"), operator=operator), 0, direction) is None


@pytest.mark.parametrize(("operator", "direction"), SPOILED)
def test_without_nan_it_is_proved(operator: str, direction: str) -> None:
    assert proved(convolved(1, operator=operator), 0, direction) is not None


def test_a_nan_that_meets_a_pixel_is_proved() -> None:
    certificate = proved(convolved(0, (0, "nan")), 2)
    assert certificate is not None
    assert certificate.high != certificate.high


def test_other_operators_owe_what_they_are_defined_by() -> None:
    """A sum of the same numbers has no zeros to multiply with."""
    case = convolved(0, (0, "nan"))
    summed = replace(case, operator="sum", args=(case.args[1],), kwargs={})
    assert proved(summed, 0) is not None


def shrunk(mode: str, row: int, token: str) -> Case:
    """15 rows of two pixels become nine; one pixel is special."""
    image = TensorRecipe((1, 1, 15, 2), "float32", UNIFORM, 2007, special=((2 * row, token),))
    options = {"size": (9, 2), "mode": mode, "antialias": True}
    return Case("nn.functional.interpolate", "float32", (image,), options)


# Row i of nine has its center at 5/3 · (i + ½) − ½, and a filter of ± 5/3 rows (bicubic: ± 10/3,
# with another 0 at ± 5/3).
@pytest.mark.parametrize(
    ("mode", "row", "reached", "on_the_edge"),
    [("bilinear", 7, [4], [3, 5]), ("bilinear", 6, [3, 4], []), ("bicubic", 7, [4], [2, 3, 5, 6])],
)
def test_a_pixel_whose_weight_is_0_counts_or_does_not(
    mode: str, row: int, reached: list[int], on_the_edge: list[int]
) -> None:
    case = shrunk(mode, row, "nan")
    certificates = [proved(case, 2 * i) for i in range(9)]
    assert [i for i, found in enumerate(certificates) if found is None] == on_the_edge
    spoiled = [i for i, found in enumerate(certificates) if found and found.high != found.high]
    assert spoiled == reached


@pytest.mark.parametrize("token", ["nan", "inf"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiasing_that_drops_nan_fails_and_torch_does_not(mode: str, token: str) -> None:
    rules = tolerances.load()
    operator = operators.get("nn.functional.interpolate")
    dropped = Played("dropped", lambda call: torch.nan_to_num(call.run(), nan=0.0, posinf=9.0))
    failing = 0
    for row in range(15):
        backends = [resolve("cpu"), dropped]
        healthy, faulty = judge_case(shrunk(mode, row, token), operator, backends, rules, FORWARD)
        assert not healthy.verdict.fails, healthy.explanation
        assert healthy.verdict.kind is not VerdictKind.KNOWN
        failing += faulty.verdict.fails
    assert failing >= 12  # others have all of their special results where nothing is decided


@pytest.mark.parametrize(
    ("pixels", "scale", "proved_at_all"),
    [(2, 1.3, False), (3, 2.2, False), (4, 2.0, True), (3, 1.5, True)],
)
def test_a_scale_that_names_other_pixels_than_the_sizes(
    pixels: int, scale: float, proved_at_all: bool
) -> None:
    """Torch copies where the size stays and takes each pixel twice where it doubles."""
    image = TensorRecipe((1, 1, pixels), "float64", UNIFORM, 2007)
    case = Case("nn.functional.interpolate", "float64", (image,), {"scale_factor": scale})
    assert (proved(case, 1) is not None) == proved_at_all


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_no_gradient_that_is_not_finite_is_proved(dtype: str) -> None:
    """A variance divided by no degrees of freedom is infinite; its gradient is a matter of how it
    is computed, and torch's is finite."""
    x = TensorRecipe((9, 9, 13, 3), dtype, ("wide", -10, 10, 1), 23825)
    case = Case("var", dtype, (x,), {"correction": 5, "dim": [3]}, 11806)
    with quiet():  # torch warns of it
        assert proved(case, 407, "backward") is None
    assert proved(replace(case, kwargs={"dim": [3]}), 407, "backward") is not None


@pytest.mark.parametrize("name", ["logaddexp", "logcumsumexp"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_the_branch_of_a_logarithm_of_complex_sums(name: str, direction: str) -> None:
    """Within ±1.5 of the real axis every way to add has the same one."""

    def case(*values: Any) -> Case:
        x, y = (TensorRecipe((4,), "complex128", values, stop) for stop in (2007, 3007))
        args = (x, y) if name == "logaddexp" else (x, 0)
        return Case(name, "complex128", args, {}, 77)

    certificate = proved(case(*UNIFORM), 2, direction)
    assert certificate is not None
    assert certificate.high.imag != 0.0
    assert proved(case("uniform", 2.0, 4.0), 2, direction) is None
