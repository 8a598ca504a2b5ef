"""The outcomes of a real device, converted and judged: every defect by its name, and nothing that
is only its rounding."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import consistency
from consistency.core.model import Case, Outcome, Output, Result
from consistency.diagnose.attribution.fewer_bits import rounded
from consistency.generate.calls.case_operator import operator_of
from consistency.generate.materialize import prepare
from consistency.storage.recording.header import RECORDING, Header
from consistency.storage.recording.reading import Recording
from consistency.storage.recording.writing import RecordingWriter
from tests.support.paths import ROOT

SOURCE = ROOT / "tests" / "data" / "directml-recording"
Rows = Mapping[str, Mapping[str, Any]]


def process(arguments: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=170,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording, converted by the tool and judged by the command."""
    here = tmp_path_factory.mktemp("directml")
    converted = process([ROOT / "tools" / "import_recording.py", SOURCE, "recording"], here)
    assert converted.returncode == 0, converted.stderr
    assert (
        converted.stdout
        == "363 outcomes in recording; judge them with: consistency judge recording\n"
    )
    judged = process(["-m", "consistency", "judge", "recording", "--json", "rows.jsonl"], here)
    assert judged.returncode == 1, judged.stderr
    (here / "screen.txt").write_text(judged.stdout, encoding="utf-8")
    return here


@pytest.fixture(scope="module")
def rows(folder: Path) -> Rows:
    found = [
        json.loads(line)
        for line in (folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert len({row["recorded_id"] for row in found}) == len(found)
    return {row["recorded_id"]: row for row in found}


def manifest() -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in (SOURCE / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    ]


# What is wrong with this device, in the words of the sentence that says so.
LOST = "writes to the view are lost"
DROPPED = "duplicate indices do not accumulate"
BIASED = "var divides by n instead of n − 1"
SINGLE = "float32 arithmetic in place of float64"
NAN = "NaN is left out"
DEFECTS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        ["add.inplace-float32-f-1", "copy.inplace-float32-f-2", "mul.inplace-float32-f-1",
        "fill.inplace-float32-f-7",
         "exp.inplace-float32-f-1", "fill.inplace-int64-f-0", "__setitem__-float32-f-6",
         "__setitem__-float16-f-0"],
        ("divergent", LOST)),
    **dict.fromkeys(["scatter_add-float32-f-0", "scatter_add-float32-f-1", "gather-float32-b-0"],
    ("divergent", DROPPED)),
    **dict.fromkeys(["var-float32-f-0", "var-float32-f-3", "var-float16-f-0"], ("divergent",
    BIASED)),
    **dict.fromkeys(
        ["exp-float64-f-0+float64", "add-float64-f-0+float64", "mul-float64-f-0+float64",
        "div-float64-f-0+float64",
         "sum-float64-f-0+float64", "mean-float64-f-0+float64", "matmul-float64-f-0+float64"],
         ("precision-scaling", SINGLE)),
    "clone-float64-f-0+float64": ("precision-scaling", "float32 inputs"),
    **dict.fromkeys(
        ["minimum-float32-f-1", "maximum-float16-f-0", "clamp-float32-f-1",
        "max.reduction_with_dim-float32-f-1",
         "amax-float32-f-3", "nn.functional.max_pool2d-float32-f-6",
         "nn.functional.relu-float32-f-1"], ("special-values", NAN)),
    "topk-float32-f-3": ("special-values", "leaving NaN out"),
    "mul-float32-f-6": ("structure", "out/0 has dtype bool instead of float32"),
    "full-float32-f-0+float64": ("structure", "out/0 has dtype float64 instead of float32"),
    "arange.large-int64-f-1": ("structure", "out/0 has shape [0] instead of [4]"),
    "mul.large-int64-f-0": ("divergent", ("integer arithmetic goes through float32, and int64 "
    "saturates at 32 bits")),
    "clone-int64-f-0": ("divergent", "int64 of argument 0 cut to int32"),
    "nn.functional.interpolate.bilinear-float32-f-0": ("divergent",
    "interpolation from pixel corners"),
    "nn.functional.interpolate.bilinear-float32-f-2": ("divergent",
    "interpolation from pixel corners"),
    "nn.functional.conv_transpose2d-float32-f-1": ("divergent",
    "what output_padding adds is left zero"),
    "nn.functional.affine_grid-float32-f-0": ("divergent", "the first row in place of every row"),
    "nn.functional.max_pool2d-float32-f-2": ("special-values",
    "indices are counted from the start of the tensor"),
    "addmm-float32-f-2": ("special-values", "the input is not left out although beta is 0"),
    "rsqrt-float32-f-1": ("special-values", "the sign of a zero input is lost"),
    "pow-float32-f-0": ("special-values", "NaN differs in 1 of 20"),
    "atan2-float32-f-1": ("special-values", "NaN differs in 3 of 20"),
    "amax-float32-b-0": ("divergent", "a gradient all zeros"),
    "sort-float32-b-0": ("divergent", "cotangents stay where they are"),
    "nn.functional.embedding-float32-f-1": ("error", ("returned a result where the reference "
    "raised: IndexError")),
    **dict.fromkeys(
        ["sum-float32-f-7", "mean-float32-f-3", "nn.functional.interpolate.area-float32-f-0"],
        ("nondeterministic", "did not all give the same bits")),
}  # fmt: skip
# Both raise, or there is nothing to compare: no verdict on the device.
UNDECIDED = {
    "mean-int64-f-0": "raises, and so does float64",
    "nn.functional.conv2d-float32-f-7": "raises, and so does float64",
    "linalg.inv-float32-f-1": "raises, and so does float64",
    "add.inplace-float32-f-7": "raises, and so does float64",
    "add.inplace-int64-f-0": "raises, and so does float64",
    "sum-float32-f-10": "no element is finite",
    "logsumexp-float32-f-3": "no element is finite", "softmax-float32-f-5": "no element is finite",
    "sum-float16-f-1": "every number lies beyond the format",
}  # fmt: skip


def test_every_recorded_case_has_one_verdict(rows: Rows, folder: Path) -> None:
    assert set(rows) == {case["id"] for case in manifest()}
    for row in rows.values():
        assert row["verdict"] in consistency.core.verdict.VERDICTS  # type: ignore[attr-defined]
        assert row["explanation"]
    counts = Counter(row["verdict"] for row in rows.values())
    assert "363 recorded outcomes in 1 recording" in (folder / "screen.txt").read_text(
        encoding="utf-8"
    )
    assert counts["inconclusive"] == len(UNDECIDED)


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_flagged_by_its_name(name: str, rows: Rows) -> None:
    verdict, words = DEFECTS[name]
    assert (rows[name]["verdict"], rows[name]["fails"]) == (verdict, True), rows[name][
        "explanation"
    ]
    assert words in rows[name]["explanation"]


def test_what_raised_crashed_fell_back_or_is_unsupported_has_a_verdict_of_its_own(
    rows: Rows,
) -> None:
    for case in manifest():
        row = rows[case["id"]]
        if case["outcome"] in ("abort", "segfault"):
            assert row["verdict"] == "crash"
        elif case["outcome"] == "raises":
            text = case["exception"]["message"]
            refused = (
                "does not support Double" in text
                or case["exception"]["type"] == "NotImplementedError"
            )
            expected = (
                "inconclusive" if case["id"] in UNDECIDED else "unsupported" if refused else "error"
            )
            assert row["verdict"] == expected, row["explanation"]
            assert text[:60].split("\n")[0] in row["explanation"]
        elif case["warnings"]:
            assert row["verdict"] == "fallback"


@pytest.mark.parametrize("name", UNDECIDED)
def test_what_cannot_be_decided_says_why(name: str, rows: Rows) -> None:
    assert rows[name]["verdict"] == "inconclusive"
    assert UNDECIDED[name] in rows[name]["explanation"]


def test_nothing_that_is_only_this_devices_rounding_fails(rows: Rows) -> None:
    """Everything that came back without an exception and is not among the defects passes, in
    float32 and float16 alike."""
    came_back = {
        case["id"] for case in manifest() if case["outcome"] == "ok" and not case["warnings"]
    }
    others = came_back - set(DEFECTS) - set(UNDECIDED)
    assert len(others) > 200
    assert {
        name: rows[name]["explanation"]
        for name in others
        if rows[name]["verdict"] not in ("exact", "rounding")
    } == {}


# Looser numbers must not swallow what is wrong: faults planted into what the device got right.

Plant = Callable[[Case, Outcome], Outcome | None]


def planted(folder: Path, into: Path, plant: Plant) -> tuple[Result, ...]:
    """The results of judging the recording with a fault in every outcome that ``plant`` changes."""
    recording = Recording(folder / "recording")
    writer = RecordingWriter(into, Header(RECORDING, "directml", recording.header.environment))
    for row in recording.rows:
        case = recording.cases[row.case_id]
        if (
            row.id in DEFECTS
            or row.id in UNDECIDED
            or row.outcome.status != "ok"
            or row.direction != "forward"
        ):
            continue
        changed = plant(case, recording.outcome(row))
        if changed is not None:
            writer.case(case, ["forward"])
            writer.outcome(row.id, case, "forward", changed)
    writer.close()
    recording.close()
    return consistency.judge_recordings(into).results


def floats(outcome: Outcome) -> bool:
    """Whether there are numbers to spoil: not only zeros, and subnormals that such a device may
    flush."""
    tensors = [o.tensor for o in outcome.outputs]
    return all(
        t is not None and t.is_floating_point() and bool((t.abs() > 2.0**-126).any())
        for t in tensors
    )


def changed(outcome: Outcome, change: Callable[[torch.Tensor], torch.Tensor]) -> Outcome:
    outputs = [
        replace(o, tensor=change(o.tensor).to(o.tensor.dtype))
        for o in outcome.outputs
        if o.tensor is not None
    ]
    return replace(outcome, outputs=tuple(outputs))


def test_a_lost_write_is_noticed_wherever_a_write_arrived(folder: Path, tmp_path: Path) -> None:
    def lost(case: Case, outcome: Outcome) -> Outcome | None:
        operator = operator_of(case)
        if not operator.mutates:
            return None
        bases = prepare(case).build().bases
        old = {f"arg/{i}": bases[i] for i in operator.mutates}
        return replace(
            outcome,
            outputs=tuple(replace(o, tensor=old.get(o.name, o.tensor)) for o in outcome.outputs),
        )

    results = planted(folder, tmp_path, lost)
    assert len(results) >= 20
    assert {
        r.recorded_id for r in results if r.verdict.value != "divergent" or r.cause != "lost-write"
    } == set()


def test_inputs_of_fewer_bits_are_noticed_in_products(folder: Path, tmp_path: Path) -> None:
    def tf32(case: Case, outcome: Outcome) -> Outcome | None:
        operator = operator_of(case)
        if (
            operator.family not in ("matmul", "convolution")
            or case.dtype != "float32"
            or operator.mutates
        ):
            return None
        shorter = prepare(case).build(
            "float64",
            adjust=lambda base, position: (
                rounded(base, 11) if base.dtype == torch.float64 else base
            ),
        )
        made = operator(*shorter.args, **shorter.kwargs).to(torch.float32)
        exact = all(
            torch.equal(a, b)
            for a, b in zip(shorter.bases, prepare(case).build("float64").bases, strict=True)
        )
        return None if exact else Outcome("ok", (Output("out/0", made, "float32"),))

    results = planted(folder, tmp_path, tf32)
    assert len(results) >= 15
    assert {r.recorded_id: r.explanation for r in results if not r.verdict.fails} == {}
    assert sum(r.verdict.value == "reduced-precision" for r in results) >= len(results) - 2


# Functions whose float32 is as coarse as this on such hardware (D3D, WebNN), so that one per mille
# may pass.
COARSE = {"sin", "cos", "erf", "asin", "acos", "nn.functional.interpolate"}


@pytest.mark.nightly
def test_one_per_mille_too_much_is_noticed(folder: Path, tmp_path: Path) -> None:
    def scaled(case: Case, outcome: Outcome) -> Outcome | None:
        return (
            changed(outcome, lambda t: t * (1.0 + 2.0**-10))
            if floats(outcome) and case.dtype == "float32"
            else None
        )

    results = [r for r in planted(folder, tmp_path, scaled) if any(x for x in r.metrics.values())]
    assert len(results) >= 80
    assert {r.operator for r in results if r.verdict.passes} - COARSE == set()


def test_an_element_that_is_not_written_is_noticed(folder: Path, tmp_path: Path) -> None:
    def last_left_out(case: Case, outcome: Outcome) -> Outcome | None:
        if (
            not floats(outcome)
            or outcome.outputs[0].tensor is None
            or not float(outcome.outputs[0].tensor.flatten()[-1])
        ):
            return None

        def without(tensor: torch.Tensor) -> torch.Tensor:
            flat = tensor.clone().reshape(-1)
            flat[-1] = 0.0
            return flat.reshape(tensor.shape)

        return changed(outcome, without)

    results = planted(folder, tmp_path, last_left_out)
    assert len(results) >= 100
    assert {r.recorded_id: r.explanation for r in results if not r.verdict.fails} == {}
