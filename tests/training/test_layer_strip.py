"""The strip of layers × steps: one cell each, red beyond the band, of long trainings ranges."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from consistency.training.findings import BackendReport, Layer, ModelReport
from consistency.training.layer_strip import COLUMNS, ROWS, shade, strip
from consistency.training.page import page
from consistency.training.reference_samples import Key
from consistency.training.rounding_envelope import layers


def layer(name: str, *distances: float) -> Layer:
    first = next((i for i, d in enumerate(distances, 1) if d > 1.0), 0)
    return Layer(name, max(distances), first=first, by_step=tuple(enumerate(distances, 1)))


def cells(svg: str) -> list[tuple[str, str]]:
    """Class and tooltip of each cell."""
    root = ElementTree.fromstring(svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1))
    name = "{http://www.w3.org/2000/svg}"
    return [
        (r.get("class", ""), r.findtext(f"{name}title") or "") for r in root.iter(f"{name}rect")
    ]


def test_a_cell_for_each_layer_and_step() -> None:
    drawn = strip([layer("conv", 0.05, 0.2, 3.0), layer("head", 0.4, 0.7, 2e4)], "gpu")
    assert cells(drawn) == [
        ("h0", "conv, step 1: 0.05 × the band"), ("h1", "conv, step 2: 0.2 × the band"),
        ("h4", "conv, step 3: 3 × the band"), ("h2", "head, step 1: 0.4 × the band"),
        ("h3", "head, step 2: 0.7 × the band"), ("h6", "head, step 3: 20,000 × the band"),
    ]  # fmt: skip
    assert "the first distance above the band is in step 3" in drawn


def test_long_trainings_and_large_models_stay_readable() -> None:
    many = [layer(f"l{i}", *([0.1] * 500 + [float(i)] * 3)) for i in range(300)]
    drawn = cells(strip(many, "gpu"))
    assert len(drawn) <= ROWS * COLUMNS
    assert any("l299, steps 498 to 503: 299 ×" in words for _, words in drawn)
    assert not any("l3, " in words for _, words in drawn), "the largest distances are kept"


@pytest.mark.parametrize("many", [[], [layer("one", 0.5)], [Layer("nothing")]])
def test_without_two_steps_there_is_no_strip(many: list[Layer]) -> None:
    assert strip(many, "gpu") == ""


def test_infinite_distances_are_the_darkest() -> None:
    assert [shade(value) for value in (0.0, 1.0, 1.001, math.inf)] == ["h0", "h3", "h4", "h6"]
    assert "infinitely many" in strip([layer("x", 0.1, math.inf)], "gpu")


def test_distances_of_a_step_are_the_largest_of_its_quantities() -> None:
    ratios = {
        Key(1, "output", "conv"): 0.2, Key(1, "gradient", "conv"): 0.6,
        Key(2, "output", "conv"): 4.0,
    }  # fmt: skip
    (row,) = layers(ratios)
    assert (row.by_step, row.first) == (((1, 0.6), (2, 4.0)), 2)


def test_on_the_page_the_diagnosis_comes_first_and_names_are_text() -> None:
    bad = "</svg><script>alert(1)</script>"
    backend = BackendReport("gpu", verdict="leaves the band", layers=(layer(bad, 0.1, 5.0),))
    html = page(ModelReport("net", 2, 3, {"gpu": backend}))
    assert "<script>" not in html
    assert html.index("Diagnosis") < html.index("Layers × steps on gpu") < html.index("Layers of")
