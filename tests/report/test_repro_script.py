"""Scripts and issue texts: bit-exact numbers, every kind of verdict and backend, and texts that
come from anywhere."""

from __future__ import annotations

import ast
import base64
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from consistency import backends, operators
from consistency.core import dtypes
from consistency.core.detail import (
    Detail,
    ModifiedInput,
    Nondeterministic,
    PrecisionScaling,
    ReferenceRaised,
    TimedOut,
)
from consistency.core.model import Case, Cause, Comparison, Evidence, Measured, Result, Worst
from consistency.core.recipe import Literal, TensorRecipe
from consistency.core.verdict import Verdict
from consistency.engine import engine
from consistency.generate.materialize import case_of, prepare
from consistency.judge import tolerances
from consistency.report import repro_script
from consistency.report.repro_script import markdown, tensor_literals
from consistency.report.repro_script.script_context import Sheet, UnscriptableError
from consistency.report.repro_script.source_repr import chain, identifier
from tests.support.paths import SITE_PACKAGES, SUPPORT
from tests.support.snapshots import Snapshot

RULES = tolerances.load()


# --- numbers


def made(raw: np.ndarray[Any, Any], dtype: str, folder: Path | None = None) -> torch.Tensor:
    """What a script makes of the numbers."""
    sheet = Sheet()
    text = tensor_literals.flat(raw, dtype, "x", sheet)
    for name, data in sheet.files.items():
        assert folder is not None
        (folder / name).write_bytes(data)
    space = {
        "torch": torch, "nan": math.nan, "inf": math.inf, "zlib": zlib, "base64": base64,
        "pathlib": pathlib,
    }  # fmt: skip
    space["__file__"] = str((folder or SUPPORT) / "repro.py")
    exec("\n".join(sheet.constants), space)
    tensor = eval(text, space)
    assert isinstance(tensor, torch.Tensor)
    assert dtypes.name_of(tensor.dtype) == dtype
    return tensor


def same_bits(tensor: torch.Tensor, raw: np.ndarray[Any, Any]) -> bool:
    flat = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return flat.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() == raw.tobytes()


def kind_of(dtype: str) -> Any:
    return np.dtype("uint16" if dtype == "bfloat16" else dtype)


@given(st.data())
def test_numbers_keep_their_bits(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([d for d in dtypes.ALL if d != "bool"]))
    kind = kind_of(dtype)
    held = data.draw(
        st.binary(min_size=kind.itemsize, max_size=64 * kind.itemsize).map(
            lambda b: b[: len(b) // kind.itemsize * kind.itemsize]
        )
    )
    raw = np.frombuffer(held, dtype=kind)
    assert same_bits(made(raw, dtype), raw)


@pytest.mark.parametrize("dtype", dtypes.ALL)
@pytest.mark.parametrize("count", [0, 1, 5, tensor_literals.FEW, tensor_literals.FEW + 1, 5000])
def test_numbers_of_every_dtype_and_count(dtype: str, count: int) -> None:
    bits = np.random.default_rng(count).integers(
        0, 256, count * kind_of(dtype).itemsize, dtype=np.uint8
    )
    raw = (bits & 1).astype(np.bool_) if dtype == "bool" else bits.view(kind_of(dtype))
    assert same_bits(made(raw, dtype), raw)
    assert same_bits(made(raw[:1].repeat(count), dtype), raw[:1].repeat(count))
    sparse = np.zeros(count, dtype=raw.dtype)
    sparse[count // 2 : count // 2 + 2] = raw[:2][: max(min(2, count - count // 2), 0)]
    assert same_bits(made(sparse, dtype), sparse)


def test_decimals_are_the_shortest() -> None:
    def text(number: float, dtype: str) -> str:
        raw = torch.tensor([number], dtype=dtypes.TORCH[dtype])
        return tensor_literals.flat(
            (raw.view(torch.int16).numpy().view(np.uint16) if dtype == "bfloat16" else raw.numpy()),
            dtype,
            "x",
            Sheet(),
        )

    assert text(0.1, "float32") == "torch.tensor([0.1], dtype=torch.float32)"
    assert text(88.0000076, "float32") == "torch.tensor([88.00001], dtype=torch.float32)"
    assert text(0.1, "float64") == "torch.tensor([0.1], dtype=torch.float64)"
    assert text(0.1, "bfloat16") == "torch.tensor([0.1], dtype=torch.bfloat16)"
    assert text(0.1, "float16") == "torch.tensor([0.1], dtype=torch.float16)"
    assert text(-0.0, "float32") == "torch.tensor([-0.0], dtype=torch.float32)"
    assert text(math.inf, "float32") == "torch.tensor([inf], dtype=torch.float32)"
    strange = np.array([0x7FC00001, 0x3F800000], dtype=np.uint32).view(np.float32)
    assert tensor_literals.flat(strange, "float32", "x", Sheet()) == (
        "torch.tensor([2143289345, 1065353216], dtype=torch.int32).view(torch.float32)"
    )


def test_what_is_too_long_for_a_script_lies_beside_it(tmp_path: Path) -> None:
    raw = np.random.default_rng(0).standard_normal(1 << 18)
    assert same_bits(made(raw, "float64", tmp_path), raw)
    assert [path.name for path in tmp_path.iterdir()] == ["x.bin"]
    case = case_of("sum", "float64", (torch.from_numpy(raw),), {})
    repro_script.write(tmp_path / "artifact", judged(case))
    assert {"repro.py", "x.bin", "issue.md"} <= {
        path.name for path in (tmp_path / "artifact").iterdir()
    }
    assert "attached is `repro.py`, `x.bin`" in (tmp_path / "artifact" / "issue.md").read_text(
        encoding="utf-8"
    )
    assert run(tmp_path / "artifact" / "repro.py").returncode == 0


def test_layouts_are_chains_of_views(snapshot: Snapshot) -> None:
    recipe = TensorRecipe(
        (2, 6),
        "float32",
        view=(("slice", 1, 1, None, 2), ("transpose", 0, 1), ("as_strided", 2, 2, 1, 3, 4)),
    )
    snapshot(chain(recipe), "1")
    assert chain(TensorRecipe((), "float32")) == ".view(())"
    assert chain(TensorRecipe((3,), "float32")) == ""
    data = bytes(24)
    assert chain(Literal(data, "float32", (2, 3), (3, 1))) == ".view(2, 3)"
    snapshot(chain(Literal(data, "float32", (3, 2), (1, 3))), "2")


# --- every operator


def judged(case: Case, backend: str = "cpu", direction: str = "forward", **more: Any) -> Result:
    (result,) = engine.judge_case(
        case, operators.get(case.operator), [backends.resolve(backend)], RULES, (direction,), **more
    )
    return result


def run(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """As a process that has torch and nothing of ours."""
    code = (
        "import runpy, sys; sys.path.append(sys.argv[1]); sys.argv = sys.argv[2:]; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-I", "-S", "-c", code, SITE_PACKAGES, str(path), *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=100, check=False)


def ran(scripts: list[tuple[str, str]], folder: Path) -> dict[str, Any]:
    """What becomes of many scripts in one fresh interpreter."""
    path = folder / "scripts.json"
    path.write_text(json.dumps(scripts), encoding="utf-8")
    command = [
        sys.executable,
        "-I",
        "-S",
        SUPPORT / "script_runner.py",
        SITE_PACKAGES,
        str(path),
    ]
    answer = subprocess.run(
        command, capture_output=True, encoding="utf-8", timeout=600, check=False
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    found: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return found


def healthy(names: list[str], seed: int, folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Scripts of a drawn case for each operator and direction: those that did not pass, and why
    some show less than they should."""
    scripts, limits = [], {}
    for number, name in enumerate(names):
        operator = operators.get(name)
        dtype = operator.dtypes[(number + seed) % len(operator.dtypes)]
        for case in engine.draw(operator, dtype, 3, seed)[0][-1:]:
            directions = operator.directions if dtypes.floats(dtype) else ("forward",)
            for result in engine.judge_case(
                case, operator, [backends.resolve("cpu")], RULES, directions
            ):
                if result.verdict.fails or result.verdict.value in ("known", "unsupported"):
                    continue
                made = repro_script.script_of(result)
                if made.limits:
                    limits[f"{name} {dtype} {result.direction}"] = made.limits[0]
                scripts.append((f"{name} {dtype} {result.direction}", made.text))
    found = ran(scripts, folder)
    assert len(found) == len(scripts)
    return {name: what for name, what in found.items() if what[0] != "passed"}, limits


_NO_SCRIPT = re.compile(
    r"its result is empty|nothing here has a gradient|float64 on the CPU raises here|there is "
    r"nothing to observe|how likely random numbers are"
)


@pytest.mark.nightly
def test_scripts_of_healthy_results_pass(tmp_path: Path) -> None:
    """A sample of the registry; all of it by night."""
    failing, limits = healthy(list(operators.registry())[3::12], 1, tmp_path)
    assert failing == {}
    assert {name: why for name, why in limits.items() if not _NO_SCRIPT.search(why)} == {}


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_scripts_of_every_operator_pass(seed: int, tmp_path: Path) -> None:
    failing, limits = healthy(list(operators.registry()), seed, tmp_path)
    assert failing == {}
    assert {name: why for name, why in limits.items() if not _NO_SCRIPT.search(why)} == {}
    assert len(limits) < 0.02 * len(operators.registry())


# --- backends


def faulty(backend: str = "cpu", verdict: str = "divergent", **changes: Any) -> Result:
    """A result as a faulty backend would give it: exp(1) is 3."""
    case = changes.pop("case", None) or case_of(
        "exp", changes.pop("dtype", "float32"), (torch.tensor([1.0, 2.0]),), {}
    )
    worst = Worst((0,), 3.0, math.e)
    measured = Measured("out/0", case.dtype, (2,), 2)
    known: dict[str, Any] = {
        "worst": worst,
        "output": "out/0",
        "shapes": ("[2]",),
        "comparison": Comparison("ok", (measured,)),
    }
    numbers = {"rho_max": 1000.0, "ulp_max": 1e6}
    return Result(
        case,
        backend,
        "forward",
        Verdict(verdict),
        "1,000 × budget",
        numbers,
        "unary",
        **{**known, **changes},
    )


PLACES = {
    "cpu": ['device = sys.argv[1] if len(sys.argv) > 1 else "cpu"'],
    "cpu+onednn=off+threads=2": [
        "torch.backends.mkldnn.enabled = False",
        "torch.set_num_threads(2)",
    ],
    "cpu+isolated": ['else "cpu"'],
    "cpu+env:ATEN_CPU_CAPABILITY=default": [
        "os.environ['ATEN_CPU_CAPABILITY'] = 'default'\n\nimport torch"
    ],
    "cpu+env:PYTHONPATH=/a b": ["# Run: PYTHONPATH='/a b' python repro.py [DEVICE]"],
    "cpu@/opt/other/python": [
        "# Found with another interpreter than this project's own: '/opt/other/python'."
    ],
    "cuda": [
        "torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False",
        'else "cuda"',
    ],
    "cuda:1+tf32+benchmark": [
        "allow_tf32 = True",
        "torch.backends.cudnn.benchmark = True",
        'else "cuda:1"',
    ],
    "cuda+deterministic": [
        "torch.use_deterministic_algorithms(True)",
        'os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")',
    ],
    "directml": ["    import torch_directml\n\n    device = torch_directml.device()"],
    "directml:1+tiled=off": [
        "    torch_directml.disable_tiled_resources(True)",
        "torch_directml.device(1)",
    ],
    "directml:radeon": ["if 'radeon' in name)", "torch_directml.device(chosen)"],
    "mps": ['else "mps"'],
    "xpu:1": ['else "xpu:1"'],
    "numpy": ["# It was found on this project's NumPy formula of the operator"],
    "mine.py:Backend": ["# It was found on a backend of your own ('mine.py:Backend')"],
    "package.module:attribute": ["# It was found on a backend of your own"],
}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("spec", PLACES)
def test_devices_and_switches_come_from_the_spec(spec: str, tmp_path: Path) -> None:
    made = repro_script.script_of(faulty(spec), spec)
    for text in PLACES[spec]:
        assert text in made.text
    assert bool(made.limits) == (
        spec == "numpy" or (":" in spec and "." in spec.partition("+")[0].partition("@")[0])
    )
    # Whatever it is for, on the CPU it passes.
    path = tmp_path / "repro.py"
    path.write_text(made.text, encoding="utf-8")
    if spec in ("cpu", "cuda:1+tf32+benchmark", "directml:radeon"):
        answer = run(path, "cpu")
        assert answer.returncode == 0, answer.stderr
        assert "cpu gives 2.71828" in answer.stdout
    compile(made.text, "repro.py", "exec")


def test_a_compiled_backend_compiles(tmp_path: Path) -> None:
    text = repro_script.script(faulty("cpu+compile"))
    assert "call=torch.compile(call, fullgraph=True, dynamic=False)" in text
    symbolic = repro_script.script(faulty("cpu+compile=dynamic"))
    assert "call=torch.compile(call, fullgraph=True, dynamic=True)" in symbolic
    case = operators_case("tanh")
    both = repro_script.script(
        replace(faulty("cpu+compile", case=case), direction="backward", output="grad/0")
    )
    compile(both, "repro.py", "exec")
    assert both.index("def call(x, device, dtype):\n    return torch.tanh(x)") < both.index(
        "torch.autograd.grad(out, x, g)"
    )


def operators_case(name: str) -> Case:
    return case_of(name, "float32", (torch.tensor([1.0, 2.0]),), {})


@pytest.mark.nightly
@pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "cl"))), reason="torch.compile needs a C++ compiler"
)
@pytest.mark.parametrize(
    ("name", "direction"),
    [("tanh", "forward"), ("tanh", "backward"), ("sort", "forward"), ("mul_", "forward")],
)
def test_compiled_scripts_run(name: str, direction: str, tmp_path: Path) -> None:
    case = engine.draw(operators.get(name), "float32", 3, 0)[0][-1]
    path = tmp_path / "repro.py"
    path.write_text(
        repro_script.script(replace(judged(case, direction=direction), backend="cpu+compile")),
        encoding="utf-8",
    )
    answer = run(path)
    assert answer.returncode == 0, answer.stderr


def test_a_recorded_result_says_where_it_was_recorded() -> None:
    result = replace(faulty("directml#2"), recorded_id="exp-1")
    identity = {"torch": "2.4.1", "device": "RTX", "driver": "31.0"}
    text = repro_script.script(result, spec="/some/recording", identity=identity)
    assert (
        "# Its outputs were recorded elsewhere (torch 2.4.1, RTX, 31.0), not where this was written"
        in text
    )
    assert "device = torch_directml.device()" in text
    assert "/some/recording" not in text
    told = repro_script.issue(result, spec="/some/recording", identity=identity)
    assert "consistency judge /some/recording --id exp-1" in told
    assert f"| judged with | `torch {torch.__version__}, where the outputs were not made` |" in told
    assert "| torch | `2.4.1` |" in told
    assert "NumPy" not in told  # that of this process says nothing


# --- kinds


def of_kind(verdict: str, explanation: str, detail: Detail | None = None) -> str:
    result = faulty(verdict=verdict, comparison=None, worst=None)
    return repro_script.script(replace(result, explanation=explanation, detail=detail))


def test_each_kind_of_verdict_has_its_check() -> None:
    assert "assert abs(got - recorded) <= admitted" in repro_script.script(faulty())
    assert "out = run(device, torch.float32)  # raised here" in of_kind(
        "error", "raised where the reference did not: RuntimeError: x"
    )
    assert "sys.exit('returned a result" in of_kind(
        "error", "returned a result where the reference raised: RuntimeError: x", ReferenceRaised()
    )
    assert "# the process ended here" in of_kind("crash", "exp: the process ended (SIGSEGV)")
    assert "faulthandler.dump_traceback_later(7, exit=True)" in of_kind(
        "timeout", "exp: no answer within 7 s", TimedOut(7.0)
    )
    assert "right = [((2,), torch.float32)]" in of_kind(
        "structure", "out/0 has shape [1] instead of [2]"
    )
    modified = "argument 0 was modified although the operator does not write to it"
    assert "before = x.reshape(-1).clone()" in of_kind("structure", modified, ModifiedInput(0))
    assert "of 30 runs" in of_kind(
        "nondeterministic",
        "other bits from run to run in 1 of 4 cases, up to 1 ulp",
        Nondeterministic("runs"),
    )
    assert "torch.set_num_threads(1)" in of_kind(
        "nondeterministic",
        "other bits with another number of threads in 1 of 4 cases",
        Nondeterministic("threads"),
    )
    assert "x = x[:1] if alone else x" in of_kind(
        "nondeterministic",
        "other bits alone as in a batch in 1 of 4 cases",
        Nondeterministic("batch"),
    )


def test_a_float64_that_is_none_is_shown_by_its_ratio(tmp_path: Path) -> None:
    case = replace(
        operators_case("exp"),
        args=(TensorRecipe((40,), "float64", ("uniform", -1.0, 1.0), 900),),
        dtype="float64",
    )
    problem = (
        "float64 errs by 1e-08 where float32 errs by 1e-08 (3 of 12 cases): it does not "
        "shrink as rounding would"
    )
    made = repro_script.script_of(
        replace(
            faulty(verdict="precision-scaling", case=case, worst=None, comparison=None),
            explanation=problem,
            detail=PrecisionScaling("case"),
        )
    )
    assert "assert wide <= max(1e-06 * narrow" in made.text
    assert not made.limits
    narrow = made.text.replace("return torch.exp(x)", "return torch.exp(x.float()).to(dtype)")
    assert narrow != made.text
    found = ran([("healthy", made.text), ("faulty", narrow)], tmp_path)
    assert found["healthy"][0] == "passed"
    assert found["faulty"][0].startswith("AssertionError: from float32 to float64")


def test_errors_that_no_single_element_shows(tmp_path: Path) -> None:
    """Within the budget everywhere, but with an RMS error of a few times what is usual."""
    views = ((), (("transpose", 0, 1),))
    args = tuple(
        TensorRecipe((32, 32), "float32", ("normal", 0.0, 1.0), 9000 + i, view)
        for i, view in enumerate(views)
    )
    case = replace(operators_case("matmul"), args=args)
    right = judged(case)
    (measured,) = right.comparison.outputs if right.comparison is not None else ()
    times = 6.0
    comparison = Comparison("ok", (replace(measured, rms=times * measured.rms),))
    worst = Worst((0, 0), 1.0, 1.1)
    result = replace(right, verdict=Verdict("divergent"),
    explanation="0.5 × budget, but its RMS error is too large",
                     comparison=comparison, metrics={"rho_max": 0.5, "rmse_ratio": times},
                     worst=worst, output="out/0")  # fmt: skip
    made = repro_script.script_of(result)
    assert "times the usual one" in made.text
    coarse = made.text.replace(
        "return torch.matmul(x, y)",
        "return torch.matmul(x, y) * (1 + 2e-6 * (dtype == torch.float32))",
    )
    assert coarse != made.text
    found = ran([("healthy", made.text), ("faulty", coarse)], tmp_path)
    assert found["healthy"][0] == "passed"
    assert found["faulty"][0].startswith("AssertionError: more than rounding")


def test_an_expected_divergence_is_shown_like_any_other() -> None:
    assert "assert abs(got - recorded) <= admitted" in repro_script.script(faulty(verdict="known"))


def test_gradients_may_leave_the_normal_numbers() -> None:
    """As they are judged: below the smallest normal number no error counts."""
    forward = replace(faulty(worst=Worst((0,), 1e-3, 0.0)), metrics={"rho_max": 1e42})
    assert "admitted = 1e-45  #" in repro_script.script(forward)
    backward = repro_script.script(replace(forward, direction="backward", output="grad/0"))
    assert "admitted = 1.18e-38  #" in backward


def test_what_cannot_be_a_script_is_said_plainly(snapshot: Snapshot, tmp_path: Path) -> None:
    case = engine.draw(operators.get("rand"), "float32", 3, 0)[0][-1]
    measured = (Measured("out/0", "bool", (3,), 3), Measured("seen/1", "bool", (1,), 1))
    result = faulty(
        case=case,
        output="seen/1",
        comparison=Comparison("ok", measured),
        worst=Worst((0,), 0.0, 1.0),
    )
    made = repro_script.script_of(result)
    snapshot(made.limits)
    assert (
        "# This cannot be shown by a script of torch alone: how likely random numbers are"
        in made.text
    )
    assert ran([("it", made.text)], tmp_path)["it"][0] == "passed"
    assert (
        "Not all of it can be shown by a script of torch alone: how likely"
        in repro_script.issue(result)
    )
    unknown = replace(result, case=replace(case, operator="no.such.thing"))
    assert "This cannot be shown by a script of torch alone: " in repro_script.script(unknown)


def test_a_function_of_the_users_own_is_followed(tmp_path: Path) -> None:
    """What assert_consistent found: the operator is handed over, since no registry knows it."""
    operator = replace(
        operators.get("exp"),
        name="<lambda>",
        function=lambda x, y: (x @ y.T).relu().sum(-1) + 1.0,
        observe=None,
    )
    case = case_of("<lambda>", "float32", (torch.rand(3, 4), torch.rand(5, 4)), {})
    result = replace(
        faulty(case=case, worst=None, comparison=None), verdict=Verdict("exact"), metrics={}
    )
    text = repro_script.script(result, operator=operator)
    assert (
        "t1 = y.T\n    t2 = x.matmul(t1)\n    t3 = t2.relu()\n    t4 = t3.sum(-1)\n    return "
        "t4.add(1.0)\n"
    ) in text
    assert text.startswith("# <lambda>, float32: nothing wrong on the CPU\n")
    repro_script.write(tmp_path / "it", result, operator=operator)
    assert (tmp_path / "it" / "repro.py").is_file()


# --- texts from anywhere

EVIL = [
    "a\nimport os; os.abort()", 'x"""\nboom()\n"""', "`" * 5 + " ```\n# head",
    "<img src=x onerror=alert(1)>",
    "| cell | @everyone #1",
    "\x1b[31mred", "\u202eabc", "[a](javascript:alert(1))", "$x$ ~~a~~ **b**", "a" * 5000, "\udcff",
]  # fmt: skip


@pytest.mark.parametrize("evil", EVIL)
def test_no_text_breaks_out(evil: str, tmp_path: Path) -> None:
    result = replace(faulty(evil), explanation=evil, shapes=(evil,), recorded_id=evil)
    evidence = Evidence(
        "divergent", cause=Cause("x", evil, 0.5), trials={evil: 0.1}, backend_agreement=evil
    )
    result = replace(
        result, evidence=evidence, comparison=replace(result.comparison, unsteady=evil)
    )
    identity = {"torch": evil, evil: evil, "device": evil}
    minimal: Any = SimpleNamespace(rate=(1, 3), thresholds=(evil,), steps=(evil,), interrupted=True)
    folder, others = tmp_path / "it", [replace(result, backend="other")]
    repro_script.write(folder, result, spec=evil, identity=identity, others=others, minimal=minimal)
    script = (folder / "repro.py").read_text(encoding="utf-8")
    names = {node.id for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Name)}
    assert not names & {"os", "boom", "alert"}
    text = (folder / "issue.md").read_text(encoding="utf-8")
    outside = re.sub(r"(?ms)^(```+)\w*\n.*?^\1\n", "", text)
    assert "\n# head" not in text.partition("\n")[2]
    spans = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", outside)
    assert "<img" not in spans.replace("\\<img", "")
    assert "@everyone" not in spans
    assert "\x1b" not in text
    for row in (line for line in outside.splitlines() if line.startswith("|")):
        assert len(re.findall(r"(?<!\\)\|", row)) == 3


def test_markdown_of_texts(snapshot: Snapshot) -> None:
    assert markdown.code("a`b") == "``a`b``"
    assert markdown.code("`a`") == "`` `a` ``"
    assert markdown.prose("a_b*<c> @d\ne") == "a\\_b\\*\\<c\\> @\u200bd e"
    snapshot(markdown.block("```\nx", "python"))
    assert markdown.cell("a|b") == "`a\\|b`"


@pytest.mark.parametrize("changes", [
    {"metrics": {"rho_max": math.nan}},
    {"metrics": {"rho_max": 1e-320}},
    {"worst": Worst((7, 7, 7), 3.0, 2.0)},
    {"worst": Worst((-1,), math.nan, math.inf)},
    {"output": "out/99"},
    {"output": "grad/x", "direction": "backward"},
    {"verdict": Verdict("structure"), "explanation": "argument 77 was modified although …",
        "comparison": None, "detail": ModifiedInput(77)},
    {"verdict": Verdict("timeout"), "detail": TimedOut(1e300)},
    {"verdict": Verdict("nondeterministic"), "detail": Nondeterministic("no such kind")},
    {"verdict": Verdict("precision-scaling"), "detail": PrecisionScaling("no such one")},
    {"verdict": Verdict("error"), "comparison": None},
    {"comparison": None, "worst": None},
    {"verdict": Verdict("unsupported")},
])  # fmt: skip
def test_results_that_make_no_sense_make_some_script(changes: dict[str, Any]) -> None:
    """They come from folders of others: a line that says why, never a traceback."""
    result = replace(faulty(), **changes)
    compile(repro_script.script(result), "repro.py", "exec")
    assert repro_script.issue(result).startswith("# ")


def test_names_from_a_file_are_no_source() -> None:
    case = replace(operators_case("exp"), kwargs={"x=__import__('os').abort(), y": 1})
    assert (
        "__import__"
        not in repro_script.script(faulty(case=case)).replace("# ", "").partition("import sys")[2]
    )
    for name in ("a b", "class", "x=1", "", "é"):
        with pytest.raises(UnscriptableError):
            identifier(name)


# --- the text of an issue


def test_an_issue_says_what_maintainers_ask_for(snapshot: Snapshot) -> None:
    cause = Cause("tf32-inputs", "TF32 inputs", 0.998)
    evidence = Evidence(
        "divergent",
        cause=cause,
        float64_error_ratio=1e-9,
        trials={"without +tf32": 0.3},
        backend_agreement="only cuda is off: cpu and numpy match float64",
    )
    result = replace(faulty("cuda+tf32", "reduced-precision"), evidence=evidence)
    others = [
        replace(faulty("cpu"), verdict=Verdict("rounding"), metrics={"rho_max": 0.31}),
        faulty("directml"),
    ]
    minimal: Any = SimpleNamespace(
        rate=(2, 3),
        thresholds=("passes at 88.0, fails at 88.0000076",),
        steps=("648 → 4 numbers",),
        interrupted=False,
    )
    identity = {
        "torch": "2.13.0+cu130", "device": "NVIDIA H200", "driver": "580.1",
        "float32 matmul": "tf32", "os": "Linux",
    }  # fmt: skip
    text = repro_script.issue(result, identity=identity, others=others, minimal=minimal)
    snapshot(text.splitlines()[0])
    for line in (
        ("`torch.exp` of `[2]` in float32 on `cuda+tf32`: at index [0] got 3, float64 says "
        "2.71828183."),
        ("That is 1,000 × the largest error that rounding explains; largest error over 1,000,000 "
        "ulp."),
        "- Likely cause: TF32 inputs explain 99.8% of the error",
        "- Work-around: without +tf32 makes it vanish",
        "- In float64 there the result is right",
        "- It fails in 2 of 3 runs",
        "- Threshold: passes at 88.0, fails at 88.0000076",
        "- Made smaller: 648 → 4 numbers",
        "- Not on `cpu`: right (0.31 × the largest error that rounding explains)",
        "- Also on `directml`: wrong by 1,000 × what rounding explains",
        "| device | `NVIDIA H200` |", "| driver | `580.1` |",
        "| switches | `float32 matmul tf32` |",
    ):  # fmt: skip
        assert line in text.splitlines()
    assert "```console\nconsistency repro '{" in text
    assert (
        len([line for line in re.sub(r"(?s)```python.*?```", "", text).splitlines() if line]) <= 40
    )


def test_the_folder_holds_what_is_promised(tmp_path: Path) -> None:
    folder = tmp_path / "failures" / "exp-1"
    repro_script.write(
        folder, faulty(), spec="cpu", identity={"device": "cpu", "torch": torch.__version__}
    )
    names = {
        "case.json", "environment.json", "issue.md", "manifest.json", "message.txt", "repro.py",
        "result.json",
    }  # fmt: skip
    names |= {"tensors.safetensors"}
    assert {path.name for path in folder.iterdir()} == names
    assert Case.from_line((folder / "case.json").read_text(encoding="utf-8")) == faulty().case
    environment = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
    assert environment["backend"]["torch"] == torch.__version__
    assert {"os", "python", "numpy"} <= environment["judged with"].keys()
    assert b"\r" not in (folder / "repro.py").read_bytes()
    answer = run(folder / "repro.py")
    assert (answer.returncode, answer.stderr) == (0, "")
    prepare(faulty().case)


def test_a_passing_script_asserts_no_sign_that_a_policy_admits(tmp_path: Path) -> None:
    """-0 where float64 has 0: what `softshrink` returns for small numbers of either sign."""
    out = TensorRecipe((8,), "float32", ("uniform", -1.0, 1.0), 683)
    x = TensorRecipe((8,), "float32", ("uniform", -1.0, 1.0), 2281)
    result = judged(Case("nn.functional.softshrink.out", "float32", (out, x), {"lambd": 1.0}))
    assert result.verdict.passes
    text = repro_script.script_of(result).text
    assert "copysign" not in text
    path = tmp_path / "repro.py"
    path.write_text(text, encoding="utf-8")
    assert run(path).returncode == 0
