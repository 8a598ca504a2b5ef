"""Defects of torch's own CPU kernels (docs/findings.md): the verdict they have, their scripts, and
the texts of their issues.

Which of them a machine shows depends on its torch, its instruction set and oneDNN: what passes here
is left out, and told. The texts were read one by one; what is checked is that they still say so.
"""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from consistency import backends, operators
from consistency.backends.subprocess.backend import SubprocessBackend
from consistency.core.model import Result
from consistency.core.verdict import Verdict
from consistency.engine import engine
from consistency.generate.materialize import case_of, prepare
from consistency.judge import tolerances
from consistency.report import repro_script
from tests.support.paths import ROOT, SITE_PACKAGES, SUPPORT

RULES = dataclasses.replace(tolerances.load(), expectations=())  # or they would all be expected
F64, BF16 = torch.float64, torch.bfloat16


def channels_last() -> torch.Tensor:
    return (
        1024 + torch.rand(1, 4, 2, 2, generator=torch.Generator().manual_seed(0)) * 2 - 1
    ).contiguous(memory_format=torch.channels_last)


def grouped() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 6, 5, 2, generator=generator).contiguous(memory_format=torch.channels_last)
    return x, torch.randn(3, 3, 2, 1, generator=generator).transpose(1, 2)


def equal_rows() -> torch.Tensor:
    return torch.complex(torch.linspace(-1, 1, 8), torch.linspace(0.3, -0.7, 8)).expand(8, 8)


def padded() -> tuple[torch.Tensor, torch.Tensor]:
    weight = torch.ones(1, 1, 2, 1, 1, dtype=BF16).clone(memory_format=torch.channels_last_3d)
    return torch.tensor([1.0, 2.0], dtype=BF16).reshape(1, 1, 2, 1), weight


# name: operator, dtype, direction, arguments, options, verdicts, what the text says
Finding = tuple[
    str, str, str, Callable[[], tuple[Any, ...]], dict[str, Any], str, str | re.Pattern[str]
]
FINDINGS: dict[str, Finding] = {
    "one-pass variance": (
        "nn.functional.group_norm", "float32", "forward", lambda: (channels_last(), 2), {},
        "divergent",
        "one-pass variance explains 100% of the error",
    ),
    "matrix_exp": (
        "linalg.matrix_exp", "float64", "forward", lambda: (torch.eye(2, dtype=F64) * -0.049,), {},
        "divergent",
        "got 0.952181129",
    ),
    "matrix_exp in bfloat16": (
        "linalg.matrix_exp", "bfloat16", "forward", lambda: (torch.eye(2, dtype=BF16),), {},
        "divergent", "not one digit is right",
    ),
    "fmod": (  # by the kernel
        "fmod", "float32", "forward", lambda: (torch.ones(16), 1.47e-39), {},
        "special-values divergent",
        re.compile("got (nan|1.0278510e-39), float64 says 6.126"),
    ),
    "bessel_j0": (
        "special.bessel_j0", "float64", "forward", lambda: (torch.tensor([5.25], dtype=F64),), {},
        "divergent",
        "computed apart from torch, with more digits than float64 has",
    ),
    "polygamma": (
        "polygamma", "float64", "forward", lambda: (1, torch.tensor([1.0], dtype=F64)), {},
        "divergent", "right is 1.644934066848",
    ),
    "hardsigmoid": (
        "nn.functional.hardsigmoid", "float64", "backward", lambda: (torch.tensor([0.5], dtype=F64),
        ), {}, "divergent",
        "The gradient of `torch.nn.functional.hardsigmoid`",
    ),
    "grouped conv2d": (
        "nn.functional.conv2d", "float32", "forward", grouped, {"groups": 3}, "divergent",
        "Work-around: `.contiguous()` on the inputs makes it vanish",
    ),
    "addmv": (
        "addmv", "float32", "forward", lambda: (torch.ones(1), torch.ones(0, 3), torch.ones(3)), {},
        "structure",
        "the result has shape \\[1\\] instead of \\[0\\].",
    ),
    "gelu(out=)": (
        "nn.functional.gelu.out", "float32", "forward", lambda: (torch.full((2, 4), 7.0).T,
        torch.ones(4, 2)), {}, "divergent",
        "Work-around: oneDNN off makes it vanish",
    ),
    "qr": ("linalg.qr", "complex64", "forward", lambda: (equal_rows(),), {}, "special-values",
    "got nan"),
    "conv3d": (
        "nn.functional.conv3d", "bfloat16", "backward", padded, {"padding": (1, 0, 0)},
        "divergent special-values nondeterministic", "by its second tensor",
    ),
    "3-norm": (
        "nn.functional.normalize", "float16", "backward", lambda: (torch.tensor([0.0212],
        dtype=torch.float16),),
        {"p": 3.0, "dim": 0, "eps": 2.0**-10}, "divergent", "got -inf",
    ),
    "chebyshev": (
        "special.shifted_chebyshev_polynomial_w", "float32", "forward",
        lambda: (torch.tensor([0.99999994]), 5), {}, "divergent",
        "got -1, float64 says 10.9999",
    ),
    "sinh": ("sinh", "float32", "forward", lambda: (torch.full((40,), 89.0),), {}, "divergent",
    "got inf, float64 says 2.2448"),
}  # fmt: skip


@pytest.fixture(scope="module")
def found() -> dict[str, tuple[Result, ...]]:
    """Each as it is judged here, on the CPU with oneDNN and without."""
    results = {}
    chosen = backends.resolve_all(["cpu", "cpu+onednn=off"])
    for name, (operator, dtype, direction, arguments, options, _, _) in FINDINGS.items():
        declared = operators.registry().get(operator)
        if declared is not None and declared.callable is not None:
            case = case_of(operator, dtype, arguments(), options, 7)
            judged = engine.judge_case(
                case,
                declared,
                chosen,
                RULES,
                (direction,),
                diagnosis_budget=engine.DiagnosisBudget(),
                against="verified",
            )
            results[name] = tuple(judged)
    return results


def test_enough_of_them_show_here(found: dict[str, tuple[Result, ...]]) -> None:
    shown = [name for name, (first, *_) in found.items() if first.verdict.fails]
    left = [name for name in FINDINGS if name not in shown]
    if len(shown) < 10:
        pytest.skip(f"torch {torch.__version__} on this machine is right about {', '.join(left)}")


@pytest.mark.parametrize("name", FINDINGS)
def test_its_text_can_be_posted(name: str, found: dict[str, tuple[Result, ...]]) -> None:
    if name not in found or not found[name][0].verdict.fails:
        pytest.skip("not shown by this torch on this machine")
    first, *others = found[name]
    *_, verdict, words = FINDINGS[name]
    assert first.verdict.value in verdict.split()
    text = repro_script.issue(
        first, spec="cpu", identity=backends.resolve("cpu").identity, others=others
    )
    assert words.search(text) if isinstance(words, re.Pattern) else words in text
    before, script, after = (
        text.partition("```python")[0],
        repro_script.script(first, spec="cpu"),
        text.rpartition("| torch |")[2],
    )
    assert 3 <= len([line for line in before.splitlines() if line]) <= 12
    assert len(script.splitlines()) <= 40
    assert script.splitlines()[-1] in text
    assert after.count("```") == 2
    assert "consistency repro " in after


@pytest.mark.nightly
def test_their_scripts_fail_where_they_are_and_only_there(
    found: dict[str, tuple[Result, ...]], tmp_path: Path
) -> None:
    """Run in a fresh interpreter: on the kernel that has the defect, and, where oneDNN is to blame,
    without it."""
    scripts, expected = [], {}
    for name, (first, without) in found.items():
        for label, spec in (("cpu", "cpu"), ("without oneDNN", "cpu+onednn=off")):
            failing = first if label == "cpu" else without
            if (
                first.verdict.fails and failing.verdict.tested and name != "conv3d"
            ):  # what was in memory before may be right
                scripts.append((f"{name} {label}", repro_script.script(first, spec=spec)))
                expected[f"{name} {label}"] = failing.verdict.fails
    path = tmp_path / "scripts.json"
    path.write_text(json.dumps(scripts), encoding="utf-8")
    command = [
        sys.executable,
        "-I",
        "-S",
        SUPPORT / "script_runner.py",
        SITE_PACKAGES,
        str(path),
    ]
    answer = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=100, check=True)
    outcomes = json.loads(answer.stdout.splitlines()[-1])
    assert {name: outcome[0] != "passed" for name, outcome in outcomes.items()} == expected


def test_a_crash_is_shown_by_a_script_that_dies(tmp_path: Path) -> None:
    """bfloat16 conv2d with a channels_last weight, in a process of its own."""
    x, weight = (
        torch.ones(2, 1, 7, 1, dtype=BF16),
        torch.ones(4, dtype=BF16).as_strided((1, 1, 4, 1), (4, 1, 1, 1)),
    )
    operator = operators.get("nn.functional.conv2d")
    case = case_of(
        operator.name, "bfloat16", (x, weight), {"stride": 3, "padding": 2, "dilation": 2}
    )
    backend = backends.resolve("cpu+isolated")
    assert isinstance(backend, SubprocessBackend)
    try:
        outcome = backend.run(operator, prepare(case))
    finally:
        backend.close()
    if outcome.status != "crash":
        pytest.skip("not shown by this torch on this machine")
    result = Result(case, "cpu+isolated", "forward", Verdict("crash"), outcome.message)
    assert "in bfloat16 on `cpu+isolated`: the process ended (SIG" in repro_script.issue(result)
    repro_script.write(tmp_path / "it", result)
    code = (
        f"import sys; sys.path.append({SITE_PACKAGES!r}); "
        f"exec(open({str(tmp_path / 'it' / 'repro.py')!r}).read())"
    )
    answer = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, timeout=100, check=False
    )
    assert answer.returncode < 0 or answer.returncode > 128


def test_the_example_of_the_page(found: dict[str, tuple[Result, ...]]) -> None:
    first = found["matrix_exp"][0]
    page = (ROOT / "docs" / "repro-script.md").read_text(encoding="utf-8")
    (shown,) = (body.partition("```")[0] for body in page.split("```python\n")[1:])
    assert "torch.linalg.matrix_exp(x)" in shown
    if f"{first.metrics.get('rho_max', 0.0):,.0f} × what rounding explains" not in shown:
        pytest.skip("not shown by this torch on this machine")
    assert shown == repro_script.script(first, spec="cpu")
