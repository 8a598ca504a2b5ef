"""Sweeps: what is varied, formulas that are read, slopes that are known, the question that began
it, and the picture."""

from __future__ import annotations

import itertools
import json
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from consistency import Backend, backends
from consistency.cli.main import main
from consistency.errors import UsageError
from consistency.probes.sweep import PLANS, findings, measure, parse_vary, plan_of
from consistency.probes.sweep.chart import chart
from consistency.probes.sweep.expressions import compiled
from consistency.probes.sweep.findings import slope_of
from consistency.probes.sweep.measure import Measurement
from consistency.report import screenshot


@pytest.mark.parametrize(("text", "name", "values"), [
    ("K=1,8,384", "K", (1.0, 8.0, 384.0)),
    ("N=3..9:2", "N", (3.0, 5.0, 7.0, 9.0)),
    ("scale=2^-3..2^1:1", "scale", (0.125, 1.125)),
    ("K=8,1,8", "K", (1.0, 8.0)),
    ("scale=1e-3", "scale", (1e-3,)),
])  # fmt: skip
def test_values_are_as_written(text: str, name: str, values: tuple[float, ...]) -> None:
    assert (parse_vary(text).name, parse_vary(text).values) == (name, values)


def test_a_span_is_even_on_a_logarithmic_scale_with_the_ends_of_blocks() -> None:
    values = parse_vary("K=1..2048").values
    assert values[0] == 1.0
    assert values[-1] == 2048.0
    assert all(value == int(value) for value in values)
    assert 48 <= len(values) <= 96
    assert {64.0, 65.0, 384.0, 385.0} <= set(values)
    small = parse_vary("scale=2^-20..2^7", 28).values
    assert small[0] == 2.0**-20
    assert all(math.isclose(b / a, 2.0) for a, b in itertools.pairwise(small))


@pytest.mark.parametrize(("text", "words"), [
    ("K", "write NAME=LOW..HIGH"),
    ("=1..2", "write NAME=LOW..HIGH"),
    ("K=9..3", "9 is not above 0 and below 3"),
    ("K=a..3", "'a' is no number"),
    ("K=1..9:0", "a step of 0 goes nowhere"),
    ("K=0,1", "every value is a number above 0"),
    ("K=1..99999:1", "more than 4096 values"),
    ("K=2^99999", "is no number"),
    ("K=inf", "above 0"),
])  # fmt: skip
def test_what_makes_no_sense_is_one_line(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words.replace("^", r"\^")):
        parse_vary(text)


X, W, B = torch.arange(6.0).reshape(2, 3), torch.ones(4, 3), torch.ones(4)


@pytest.mark.parametrize(("text", "expected"), [
    ("x @ W.T + b", X @ W.T + B),
    ("x.sum(-1) / 3", X.sum(-1) / 3),
    ("exp(x) / exp(x).sum(-1, True)", torch.softmax(X, -1)),
    ("-x ** 2", -(X**2)),
    ("torch.nn.functional.linear(x, W, b)", X @ W.T + B),
    ("softmax(x, dim=-1)", torch.softmax(X, -1)),
    ("(x * x).mean(-1)", (X * X).mean(-1)),
    ("x.mT.mT", X),
    ("sum(x, [0, 1])", X.sum()),
])  # fmt: skip
def test_formulas_are_read(text: str, expected: torch.Tensor) -> None:
    torch.testing.assert_close(compiled(text, ("x", "W", "b"))({"x": X, "W": W, "b": B}), expected)


@pytest.mark.parametrize(("text", "words"), [
    ("x @ w", "what is 'w'"),
    ("x +", "cannot be read"),
    ("__import__('os').system('true')", "has no function 'system'"),
    ("x.__class__", "is not understood"),
    ("(lambda: 1)()", "cannot be called"),
    ("open('f')", "no function 'open'"),
    ("x.apply_(x)", "no function 'apply_'"),
    ("torch.load(x)", "no function 'torch.load'"),
    ("x if x else b", "is not understood"),
    ("[y for y in x]", "is not understood"),
    ("'text'", "is not understood"),
    ("x" * 600, "a formula of 600 characters"),
    ("sum(*x)", "is not understood"),
    ("sum(**x)", "is not understood"),
    ("x.grad", "is not understood"),
])  # fmt: skip
def test_a_formula_is_never_executed_as_python(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        compiled(text, ("x", "W", "b"))


def test_powers_of_numbers_end() -> None:
    assert compiled("9 ** 9 ** 9 ** 9", ())({}) == pytest.approx(9.0**64)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_slopes_that_are_known_are_found(power: float) -> None:
    points = [
        Measurement(
            float(n), "float32", "c", "rounding", rms=3.0 * n**power * (1.3 if n > 900 else 1.0)
        )
        for n in range(8, 2000, 37)
    ]
    assert slope_of(points) == pytest.approx(power, abs=0.1)
    assert math.isnan(slope_of(points[:3]))
    assert math.isnan(
        slope_of([Measurement(float(n), "float32", "c", "exact", rms=0.0) for n in range(1, 50)])
    )


class Loses(Backend):
    """The CPU, without the last term from K = 100 on."""

    name = "loses"

    def call(self, operator, args, kwargs):  # type: ignore[no-untyped-def]
        a, b = args
        return a[:, :-1] @ b[:-1] if a.shape[1] >= 100 else a @ b


def test_where_a_contestant_leaves_the_budget_is_found_and_a_healthy_one_stays() -> None:
    cpu = backends.resolve("cpu+threads=1")
    series = measure(
        PLANS["matmul"],
        parse_vary("K=60..140:8"),
        [cpu, Loses()],
        {"by b": "(b.T @ a.T).T"},
        fixed={"M": 4.0, "N": 4.0},
    )
    found = {(f.contestant, f.dtype): f for f in findings(series)}
    for dtype in ("float32", "float64"):
        assert found["loses", dtype].leaves == 100.0
        assert "leaves the budget at K = 100" in found["loses", dtype].words
        for healthy in ("cpu+threads=1", "by b"):
            assert math.isnan(found[healthy, dtype].leaves)
            assert found[healthy, dtype].worst < 1.0


def test_the_question_that_began_it() -> None:
    """F.linear and x @ W.T + b: rounding at every size; errors grow like a sum's.

    From which K on their bits differ, the kernels decide, and whether x·W + b is rounded once at K
    = 1: half an ulp is 1 × budget.
    """
    plan = plan_of("linear")
    assert plan_of("nn.functional.linear") is plan
    series = measure(plan, parse_vary(plan.vary, 16), [backends.resolve("cpu")], plan.formulas)
    assert {m.verdict for m in series.measurements} <= {"exact", "rounding"}
    for fact in findings(series):
        assert fact.worst <= 1.0
        assert math.isnan(fact.leaves)
        assert (
            0.3 < fact.slope < 1.3
        )  # n^½ is the growth of the results, n that of terms added in turn
    ratios = [
        a.rms / b.rms
        for a, b in zip(series.of("cpu", "float32"), series.of("cpu", "float64"), strict=True)
        if b.rms
    ]
    assert 2.0**25 < sorted(ratios)[len(ratios) // 2] < 2.0**31


def test_elementwise_functions_vary_their_magnitude() -> None:
    plan = plan_of("exp")
    assert plan.vary.startswith("scale=")
    series = measure(
        plan,
        parse_vary("scale=0.001,1,64"),
        [backends.resolve("cpu"), backends.resolve("numpy")],
        {},
        fixed={"N": 64.0},
    )
    assert all(fact.worst <= 1.0 for fact in findings(series))


@pytest.mark.parametrize(
    ("name", "arguments", "vary"),
    [
        ("mul", ("a", "b"), "scale"), ("nn.functional.gelu", ("x",), "scale"), ("lerp", ("a", "b",
        "c"), "scale"),
        ("logsumexp", ("x",), "N"), ("cumprod", ("x",), "N"), ("log_softmax", ("x",), "N"),
        ("rms_norm", ("x",), "N"),
        ("bmm", ("a", "b"), "K"), ("mv", ("a", "b"), "K"), ("addmm", ("c", "a", "b"), "K"),
        ("conv1d", ("x", "W"), "C"),
        ("conv_transpose2d", ("x", "W"), "C"), ("mse_loss", ("a", "b"), "N"),
    ],
)  # fmt: skip
def test_other_operators_get_the_arguments_of_their_family(
    name: str, arguments: tuple[str, ...], vary: str
) -> None:
    plan = plan_of(name)
    assert plan.arguments == arguments
    assert plan.vary.startswith(f"{vary}=")
    sizes = {size: 6.0 for size in plan.usual if size != vary}
    series = measure(
        plan,
        parse_vary(f"{vary}=1,2,5" if vary == "scale" else f"{vary}=2,5,9"),
        [backends.resolve("cpu")],
        {},
        fixed=sizes,
    )
    for fact in findings(series):
        assert fact.worst <= 1.0, fact


def test_what_no_sweep_can_make_arguments_for_is_said() -> None:
    for name in (
        "outer",
        "nn.functional.ctc_loss",
        "sort",
        "fft.fft",
    ):  # as many numbers as a square; a label; movement; complex
        with pytest.raises(
            UsageError, match="takes none of the arguments that a sweep can make; those that have"
        ):
            plan_of(name)


def test_the_picture_is_well_formed_and_holds_everything(tmp_path: Path) -> None:
    plan = PLANS["sum"]
    series = measure(
        plan,
        parse_vary("N=1..600", 9),
        [backends.resolve("cpu")],
        {"<script>": "x.sum(-1)"},
        fixed={"R": 4.0},
    )
    found = findings(series)
    drawn = chart(series, found, "sum & <b>")
    root = ElementTree.fromstring(drawn)
    told = "".join("".join(text.itertext()) for text in root.findall(".//{*}text")).replace(" ", "")
    assert (
        len(found) == 4
    )  # two contestants in two dtypes, each with a line of its own, broken where it would not fit
    assert all(f"{f.dtype}: {f.words}".replace(" ", "") in told for f in found)
    assert root.tag.endswith("svg")
    assert "<script>" not in drawn
    assert len(root.findall(".//{*}path")) >= 6
    for number in (value for path in root.iter() for value in path.attrib.values()):
        assert "nan" not in number
    if screenshot.browser() is None:
        pytest.skip("no browser is here to draw it with")
    (tmp_path / "s.svg").write_text(drawn, encoding="utf-8")
    made = screenshot.render_png(tmp_path / "s.svg", tmp_path / "s.png").read_bytes()
    assert made.startswith(b"\x89PNG")
    assert len(made) > 5000


def test_no_browser_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screenshot.shutil, "which", lambda name: None)
    with pytest.raises(UsageError, match=r"no browser to draw s\.png with: put one of chromium"):
        screenshot.render_png(tmp_path / "s.svg", tmp_path / "s.png")


@pytest.mark.nightly
def test_the_command_writes_its_files_and_says_what_it_saw(tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "consistency", "sweep", "linear", "--vary", "K=1..64", "--points",
        "7", "--fix", "M=8", "-o", str(tmp_path),
    ]  # fmt: skip
    done = subprocess.run([*command, "-b", "cpu"], capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("float32\n  cpu ")
    assert "x @ W.T + b" in done.stdout
    data = json.loads((tmp_path / "sweep.json").read_text(encoding="utf-8"))
    assert data["operator"] == "nn.functional.linear"
    assert data["fixed"]["M"] == 8
    assert {m["contestant"] for m in data["measurements"]} == {"cpu", "x @ W.T + b"}
    assert (tmp_path / "sweep.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize(("arguments", "words"), [
    (["nosuch"], "there is no operator 'nosuch'"),
    (["svd"], "takes none of the arguments that a sweep can make|there is no operator"),
    (["linear", "--vary", "Q=1..9"], "has N, K, M, scale"),
    (["linear", "--vary", "K=1.5,2"], "sizes are whole numbers"),
    (["linear", "--fix", "k=3"], "no dimension 'k'"),
    (["linear", "--fix", "K=1,2"], "one number, such as K=512"),
    (["linear", "--backend", "cuda:9"], "cannot be used here"),
    (["linear", "--dtype", "int64"], "--dtype 'int64'"),
    (["linear", "--formula", "x @"], "cannot be read"),
])  # fmt: skip
def test_bad_usage_is_one_line(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(main, ["sweep", *arguments])
    assert result.exit_code == 2, result.output
    assert len(result.output.strip().splitlines()) == 1
    assert re.search(words, result.output)


TEXT = "{http://www.w3.org/2000/svg}text"


def test_each_line_has_its_name_at_its_end_and_guides_only_where_they_help() -> None:
    """A sum grows and gets a guide; a copy has no error at all, exp's does not grow."""
    for name, vary, guided in (("sum", "N=8..4096", True), ("exp", "scale=2^-10..2^5", False)):
        plan = plan_of(name)
        sizes = {size: 6.0 for size in plan.usual if size not in vary}
        formula = {"sum": "x.sum(-1)", "exp": "exp(x)"}[name]
        series = measure(
            plan, parse_vary(vary, 12), [backends.resolve("cpu")], {"a formula": formula},
            fixed=sizes,
        )  # fmt: skip
        root = ElementTree.fromstring(chart(series, findings(series), name))
        texts = [(float(t.get("x", "0")), "".join(t.itertext())) for t in root.iter(TEXT)]
        ends = [words for x, words in texts if x > 810.0]
        assert ends.count("a formula") == len(series.dtypes), name
        heights = [float(t.get("y", "0")) for t in root.iter(TEXT) if float(t.get("x", "0")) > 810]
        assert len(set(heights)) == len(heights), "labels do not cover each other"
        assert any(words in ("√n", "n") for _, words in texts) == guided, name
