"""The public interface: what DESIGN promises to outsiders, attribute by attribute."""

from __future__ import annotations

import fnmatch
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import consistency
from consistency import Divergence, Result, Rule, UsageError, Verdict, operators
from consistency.backends.base import Backend, TorchBackend
from consistency.operators.declare import NORMWISE, Operator, call


class MyBackend(consistency.Backend):
    name = "mine"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        return super().call(operator, args, kwargs)


class Mixed(consistency.TorchBackend):
    device = "cpu"
    name = "tf32"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        return super().call(
            operator, tuple(tf32(a) if isinstance(a, torch.Tensor) else a for a in args), kwargs
        )


def tf32(tensor: torch.Tensor) -> torch.Tensor:
    """Rounded to the ten bits of a TF32 significand."""
    return ((tensor.detach().contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) - 0.5


@pytest.fixture(scope="module")
def run() -> Any:
    return consistency.run(
        operators=["matmul", "nn.functional.relu*"],
        backends=["cpu", MyBackend()],
        dtypes=["float32"],
        examples=4,
    )


# --- run


def test_the_attributes_of_a_result(run: Any) -> None:
    asked = {"matmul", *fnmatch.filter(operators.registry(), "nn.functional.relu*")}
    assert {r.operator for r in run.results} == asked
    assert {"nn.functional.relu", "nn.functional.relu6"} <= asked
    assert run.failures == ()
    for r in run.results:
        assert isinstance(r, Result)
        assert (r.case.operator, r.case.dtype) == (r.operator, r.dtype)
        assert r.backend in ("cpu", "mine")
        assert r.direction in ("forward", "backward")
        assert isinstance(r.verdict, Verdict)
        assert r.verdict.value in ("exact", "rounding", "inconclusive")
        assert str(r.verdict) == r.verdict.value
        assert r.verdict.fails is False
        assert r.explanation
        assert "\n" not in r.explanation
        json.dumps(dict(r.metrics))
    measured = [r.metrics for r in run.results if r.verdict.value == "rounding"]
    assert measured
    assert all(m.keys() >= {"rho_max", "ulp_max", "rmse_ratio"} for m in measured)
    assert all(0.0 < m["rho_max"] <= 1.0 for m in measured)


def test_a_result_is_frozen(run: Any) -> None:
    with pytest.raises(AttributeError):
        run.results[0].backend = "other"
    with pytest.raises(TypeError):
        run.results[0].metrics["rho_max"] = 0.0


def test_failures_come_worst_first() -> None:
    failing = consistency.run(
        ["matmul", "mm"], ["cpu", Mixed()], ["float32"], ["forward"], examples=8, shipped=False
    ).failures
    assert failing
    assert all(r.verdict.fails and r.backend == "tf32" for r in failing)
    sizes = [r.metrics["rho_max"] for r in failing]
    assert sizes == sorted(sizes, reverse=True)


def test_the_same_arguments_give_the_same_cases_and_verdicts() -> None:
    def told(seed: int) -> list[tuple[str, ...]]:
        found = consistency.run(
            ["exp", "sum"], ["cpu", "numpy"], ["float32"], examples=5, seed=seed, shipped=False,
            exhaustive=False,
        )  # fmt: skip
        return [
            (r.case.id, r.backend, r.direction, r.verdict.value, r.explanation, r.sha256)
            for r in found.results
        ]

    assert told(0) == told(0)
    assert not {row[0] for row in told(0)} & {row[0] for row in told(7)}


def test_directions_dtypes_and_examples() -> None:
    found = consistency.run(
        "exp", "cpu", ["float32", "bfloat16"], ["forward"], examples=3, shipped=False,
        exhaustive=False,
    )  # fmt: skip
    assert {(r.dtype, r.direction) for r in found.results} == {
        ("float32", "forward"),
        ("bfloat16", "forward"),
    }
    assert len({r.case.id for r in found.results if r.dtype == "float32"}) == 3
    gradients = consistency.run("exp", "cpu", ["float32"], "backward", examples=2)
    assert {r.direction for r in gradients.results} == {"backward"}


def test_a_time_budget() -> None:
    found = consistency.run("exp", "cpu", ["float32"], "forward", examples=2, time_budget=0.5)
    assert 0.4 < found.seconds < 5.0
    assert len(found.results) > 2


def test_a_bundle_and_handlers(tmp_path: Path) -> None:
    seen: list[str] = []
    found = consistency.run(
        "exp",
        "cpu",
        ["float32"],
        "forward",
        2,
        out=tmp_path / "b",
        handlers=[lambda e: seen.append(type(e).__name__)],
        shipped=False,
        exhaustive=False,
    )
    assert found.out == tmp_path / "b"
    assert (tmp_path / "b" / "results.jsonl").stat().st_size > 0
    assert seen == ["Started", "Judged", "Judged", "UnitDone", "Finished"]
    with pytest.raises(consistency.BundleError, match="already holds a bundle"):
        consistency.run("exp", "cpu", ["float32"], "forward", 2, out=tmp_path / "b")


def test_tolerances_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(
        "extends: packaged\noperators:\n  exp:\n    float32: {c: 0.5, lambda: 0, source: a test}\n",
        encoding="utf-8",
    )
    strict = consistency.run(
        "exp", "cpu", ["float32"], "forward", 5, tolerances=tmp_path / "t.yaml"
    )
    usual = consistency.run("exp", "cpu", ["float32"], "forward", 5)

    def worst(found: Any) -> float:
        return max(r.metrics.get("rho_max", 0.0) for r in found.results)

    assert worst(strict) > 1.5 * worst(usual) > 0.0
    (tmp_path / "t.yaml").write_text("operatros: {}\n", encoding="utf-8")
    with pytest.raises(
        consistency.ConfigurationError,
        match=r"t\.yaml:1:1  operatros is not a key here; did you mean operators\?",
    ):
        consistency.run("exp", "cpu", tolerances=tmp_path / "t.yaml")


def test_an_operator_of_ones_own() -> None:
    def sample(d: Any) -> Any:
        return call(d.tensor(d.shape(1, 2)))

    def squash(x: torch.Tensor) -> torch.Tensor:
        return x / (1 + x.abs())

    mine = Operator(
        name="squash",
        family="mine",
        sample=sample,
        function=squash,
        dtypes=("float32",),
        error=NORMWISE,
    )
    found = consistency.run([mine], ["cpu", MyBackend()], directions=["forward"], examples=5)
    assert {r.operator for r in found.results} == {"squash"}
    assert {r.verdict.value for r in found.results} <= {
        "rounding",
        "exact",
        "inconclusive",
        "special-values",
    }
    assert any(r.verdict.passes for r in found.results)


@pytest.mark.parametrize(("arguments", "text"), [
    ({"operators": ["mtmul"]}, "there is no operator 'mtmul'; did you mean matmul or mul?"),
    ({"backends": ["cpuu"]}, "there is no backend 'cpuu'; did you mean cpu?"),
    ({"backends": [3]}, "the backend is of type int; expected a consistency.Backend"),
    ({"dtypes": ["float23"]}, "unknown dtype 'float23'; did you mean float32 or float64?"),
    ({"directions": ["sideways"]}, "unknown direction 'sideways'"),
    ({"examples": 0}, "examples = 0; at least 1 case"),
    ({"time_budget": -1}, "time_budget = -1; give a number of seconds above 0"),
], ids=lambda value: str(value)[:30])  # fmt: skip
def test_a_mistake_is_one_clear_line(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        consistency.run(**arguments)
    assert str(caught.value).startswith(text)
    assert isinstance(caught.value, ValueError)


# --- backends of one's own


def test_backends_as_the_documents_show_them(run: Any) -> None:
    assert issubclass(MyBackend, Backend)
    assert issubclass(Mixed, TorchBackend)
    mine = {r.key[::2]: r.verdict for r in run.results if r.backend == "mine"}
    cpu = {r.key[::2]: r.verdict for r in run.results if r.backend == "cpu"}
    assert mine == cpu


def test_what_a_backend_is_given() -> None:
    seen: list[tuple[str, list[str], bool]] = []

    class Curious(consistency.Backend):
        name = "curious"

        def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
            tensors = [a for a in args if isinstance(a, torch.Tensor)]
            seen.append(
                (
                    operator.name,
                    [str(t.device) for t in tensors],
                    any(t.requires_grad for t in tensors),
                )
            )
            return super().call(operator, args, kwargs)

    consistency.run("mm", [Curious()], ["float32"], examples=1, shipped=False)
    assert seen == [("mm", ["cpu", "cpu"], False), ("mm", ["cpu", "cpu"], True)]


def test_unsupported_is_not_an_error() -> None:
    class Half(consistency.Backend):
        name = "half"

        def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
            raise consistency.Unsupported("no such kernel here")

    chosen: dict[str, Any] = {"examples": 1, "shipped": False, "exhaustive": False}
    run = consistency.run("exp", [Half()], ["float32"], "forward", **chosen)
    (result,) = run.results
    assert (result.verdict.value, result.explanation) == (
        "unsupported",
        "Unsupported: no such kernel here",
    )
    assert not result.verdict.tested


# --- assert_consistent


X, W, B = random(32, 2048), random(512, 2048, seed=1), random(512, seed=2)


def by_hand(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return x @ weight.T + bias


def test_the_old_question() -> None:
    """F.linear(x, W, b) against x @ W.T + b: half of the elements differ, and it is rounding."""
    assert not torch.equal(F.linear(X, W, B), by_hand(X, W, B))
    (result,) = consistency.assert_consistent(by_hand, X, W, B, reference=F.linear)
    assert (result.operator, result.verdict.value) == ("nn.functional.linear", "rounding")
    assert result.explanation.endswith(" × budget: rounding")
    assert 0.0 < result.metrics["rho_max"] < 0.5


def test_reduced_precision_is_found() -> None:
    told = (
        r"^nn\.functional\.linear · .* · cpu   reduced-precision: .* × budget\n"
        r"  cause:   TF32 inputs explain 9\d%"
    )
    with pytest.raises(Divergence, match=told) as caught:
        consistency.assert_consistent(
            lambda x, w, b: by_hand(tf32(x), tf32(w), b), X, W, B, reference=F.linear
        )
    assert isinstance(caught.value, AssertionError)
    (result,) = caught.value.results
    assert isinstance(result, Result)
    assert result.metrics["rho_max"] > 1.0
    text = str(caught.value)
    assert "  worst at (" in text
    assert "  call:    nn.functional.linear([32, 2048], [512, 2048], [512])" in text
    assert "again:" not in text, "no command can call somebody's function"
    assert '  keep:    consistency.save(error.results[0], "FOLDER", fn=…): ' in text


def smooth(x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.softplus(x * scale)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_function_of_ones_own_in_every_dtype(dtype: torch.dtype) -> None:
    x, scale = random(64).to(dtype), random(64, seed=3).to(dtype)
    (result,) = consistency.assert_consistent(smooth, x, scale=scale)
    assert (result.operator, result.dtype) == ("smooth", str(dtype).removeprefix("torch."))
    assert result.verdict.passes


def test_a_reference_of_ones_own() -> None:
    def fast(x: torch.Tensor) -> torch.Tensor:
        return x - x**3 / 6

    x = random(50) * 0.01
    assert consistency.assert_consistent(fast, x, reference=torch.sin)[0].verdict.passes
    with pytest.raises(Divergence, match="divergent"):
        consistency.assert_consistent(fast, x + 1, reference=torch.sin)


def test_a_rule_of_ones_own() -> None:
    def off(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x) * (1 + 2.0**-21)

    with pytest.raises(Divergence):
        consistency.assert_consistent(off, X[0], reference=torch.exp)
    (result,) = consistency.assert_consistent(
        off, X[0], reference=torch.exp, rule=Rule(c=20.0, lam=0.0)
    )
    assert result.metrics["rho_max"] == pytest.approx(8 / 20, rel=0.2)


def test_backends_are_chosen() -> None:
    results = consistency.assert_consistent(torch.exp, X[0], backends=["cpu", "numpy", MyBackend()])
    assert [r.backend for r in results] == ["cpu", "numpy", "mine"]
    (alone,) = consistency.assert_consistent(torch.exp, X[0], backends="cpu")
    assert alone.backend == "cpu"
    with pytest.raises(Divergence) as caught:
        consistency.assert_consistent(torch.mm, X, W.T, backends=["cpu", Mixed()])
    assert [r.backend for r in caught.value.results] == ["tf32"]
    with pytest.raises(UsageError, match="there is no backend 'cpuu'"):
        consistency.assert_consistent(torch.exp, X[0], backends=["cpuu"])


def test_what_could_not_be_tested_does_not_pass() -> None:
    class Absent(consistency.Backend):
        name = "absent"

        def why_unavailable(self) -> str:
            return "the cable is not plugged in"

    class Empty(consistency.Backend):
        name = "empty"

        def unsupported(self, operator: Any, dtype: str, direction: str) -> str:
            return "nothing is offered"

    with pytest.raises(Divergence, match="absent   unavailable: the cable is not plugged in"):
        consistency.assert_consistent(torch.exp, X[0], backends=[Absent()])
    with pytest.raises(Divergence, match="empty   unsupported: nothing is offered"):
        consistency.assert_consistent(torch.exp, X[0], backends=[Empty()])


def test_views_and_gradients_are_taken_as_they_are() -> None:
    x = X.clone().requires_grad_(True)[::2, 5:].T
    (result,) = consistency.assert_consistent(torch.tanh, x)
    assert result.verdict.passes
    assert result.shapes == (f"{list(x.shape)} strides {list(x.stride())} offset 0",)


def test_without_tensors_there_is_nothing_to_compare() -> None:
    with pytest.raises(
        UsageError, match="assert_consistent needs at least one tensor among its arguments"
    ):
        consistency.assert_consistent(lambda x: x, 3.0)


def test_an_exception_is_told() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no luck today")

    with pytest.raises(
        Divergence, match="error: raised where the reference did not: RuntimeError: no luck today"
    ):
        consistency.assert_consistent(broken, X[0], reference=torch.exp)


# --- compare


P, Q = random(16, 40), random(40, 8, seed=5)


def compare(actual: Any, expected: Any = None, **changes: Any) -> Result:
    return consistency.compare(
        actual, expected, **{"operator": "matmul", "args": (P, Q), "dtype": "float32"} | changes
    )


def test_tensors_from_elsewhere_are_judged() -> None:
    result = compare(P @ Q, P.double() @ Q.double())
    assert (result.verdict.value, result.backend, result.operator, result.dtype) == (
        "rounding",
        "given",
        "matmul",
        "float32",
    )
    assert result.shapes == ("[16, 40]", "[40, 8]")
    assert compare(P @ Q).metrics == result.metrics, "the float64 result can be left out"
    assert compare(P @ Q, dtype=None).verdict == result.verdict
    off = compare((P @ Q) * 1.001, P.double() @ Q.double(), backend="theirs")
    assert (off.verdict.value, off.backend) == ("divergent", "theirs")
    assert off.worst is not None
    assert off.metrics["rho_max"] > 100


def test_compare_believes_the_expected_values_it_is_given() -> None:
    assert compare(P @ Q, (P.double() @ Q.double()) + 1.0).verdict.fails


def test_wrong_shapes_and_dtypes() -> None:
    result = compare((P @ Q)[None])
    assert (result.verdict.value, result.explanation) == (
        "structure",
        "out/0 has shape [1, 16, 8] instead of [16, 8]",
    )
    assert compare([P @ Q, P @ Q]).explanation == "returned 2 outputs instead of 1"
    assert compare(None).verdict.value == "structure"
    with pytest.raises(
        UsageError, match=r"expected_float64 has shapes \[\[8\]\], the operator gives \[\[16, 8\]\]"
    ):
        compare(P @ Q, (P.double() @ Q.double())[0])
    with pytest.raises(
        UsageError, match="expected_float64 is float32; compute it in float64, or leave it out"
    ):
        compare(P @ Q, P @ Q)
    with pytest.raises(
        UsageError, match=r"expected_float64 is a torch.sparse_coo tensor; give a dense one"
    ):
        compare(P @ Q, (P.double() @ Q.double()).to_sparse())
    with pytest.raises(UsageError, match="did you mean matmul"):
        compare(P @ Q, operator="mtmul")


def test_compare_takes_keywords_and_several_outputs() -> None:
    values, indices = torch.max(P, dim=1)
    result = consistency.compare((values, indices), operator="max", args=(P, 1))
    assert result.verdict.passes or result.verdict.value == "inconclusive"
    result = consistency.compare(
        torch.cat([P, P], dim=1), operator="cat", args=([P, P],), kwargs={"dim": 1}
    )
    assert result.verdict.passes


def test_arguments_may_be_written_in_another_way_than_the_harness_writes_them() -> None:
    by_position, by_name = consistency.assert_consistent(
        torch.softmax, P, -1
    ) + consistency.assert_consistent(torch.softmax, P, dim=-1)
    assert by_position.operator == by_name.operator == "softmax"
    assert by_position.verdict == by_name.verdict == Verdict("rounding")
    result = consistency.compare(
        F.softmax(P, dim=-1) * 1.001, operator="softmax", args=(P,), kwargs={"dim": -1}
    )
    assert result.verdict.value == "divergent"
    assert (
        consistency.compare(
            P.sum(dim=1), operator="sum", args=(P,), kwargs={"dim": 1}
        ).verdict.value
        == "rounding"
    )


# --- what importing costs


def test_importing_the_package_imports_nothing_heavy() -> None:
    script = (
        "import consistency, sys\n"
        "heavy = {'torch', 'numpy', 'hypothesis', 'click', 'rich', 'pydantic', 'yaml'} & "
        "set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert set(dir(consistency)) >= {'run', 'compare', 'assert_consistent', 'Backend', "
        "'TorchBackend'}\n"
        "assert not hasattr(consistency, 'runs')"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)


def test_what_a_run_imports_beside_torch(capsys: pytest.CaptureFixture[str]) -> None:
    script = (
        "import time, torch\n"
        "start = time.perf_counter()\n"
        "import consistency.api.runs, consistency.storage.bundle, consistency.cli.main, "
        "consistency.report.terminal\n"
        "consistency.operators.registry()\n"
        "print(time.perf_counter() - start)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], check=True, capture_output=True, text=True
    )
    with capsys.disabled():
        print(f"\n[imports of a run beside torch: {float(done.stdout):.2f} s, aim 0.30 s]", end=" ")


@pytest.mark.parametrize(
    ("arguments", "named", "text"),
    [
        ((torch.ones(2), torch.ones(2)), {}, "the first argument is of type Tensor, which cannot"),
        ((torch.exp, torch.ones(2)), {"reference": 3}, "reference is of type int, which cannot"),
        ((torch.exp, torch.ones(2)), {"refrence": torch.exp}, "'refrence'; did you mean reference"),
        ((lambda x: x, torch.ones(2)), {"backend": ["cpu"]}, "'backend'; did you mean backends"),
    ],
)
def test_mistakes_in_assert_consistent(
    arguments: tuple[Any, ...], named: dict[str, Any], text: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(text)):
        consistency.assert_consistent(*arguments, **named)


def test_arguments_that_only_look_like_mistakes_are_passed_on() -> None:
    x = torch.rand(3)
    (result,) = consistency.assert_consistent(torch.add, x, other=x)
    assert result.verdict.passes
    (result,) = consistency.assert_consistent(lambda x, operators: x + operators, x, operators=x)
    assert result.verdict.passes
