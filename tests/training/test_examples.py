"""The built-in examples: the same bits everywhere, listed, right where they are right, and told as
what they are where not."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

import consistency
from consistency.cli.main import main
from consistency.training import capture, examples, preflight
from consistency.training.bitwise_equality import digest, named_tensors
from consistency.training.examples import EXAMPLES
from consistency.training.findings import WITHIN
from consistency.training.trace import corpus
from consistency.training.training_task import Subject
from consistency.training.variants import Variant, compare_variants, variants_of
from tests.support.commands import command
from tests.support.paths import ROOT

# Seconds each; the others are looked at by night.
QUICK = [
    "recurrent",
    "batch-norm-eval-forgotten",
    "dropout-eval",
    "mixed-dtypes",
    "in-place",
    "autocast-bfloat16",
]
STARTS = {
    "linear-regression": "27627b38", "mlp": "c16badf0", "batch-norm": "fe031974",
    "lstm": "a84de6e2", "transformer": "e4b57b0b",
}  # fmt: skip


def test_the_same_bits_everywhere() -> None:
    """Of the weights, the data and the targets: in every version of torch, on every machine; and
    every time."""
    import hashlib

    for name, begins in STARTS.items():
        subject = EXAMPLES[name]()
        total = hashlib.sha256()
        for tensor in (*subject.model.state_dict().values(), *subject.inputs, *subject.targets):
            total.update(tensor.numpy().tobytes())
        assert total.hexdigest()[:8] == begins, name
    for example in EXAMPLES.values():
        first, again = example(), example()
        assert digest([t for _, t in named_tensors(first.model)]) == digest(
            [t for _, t in named_tensors(again.model)]
        )
        assert digest((first.inputs, first.targets)) == digest((again.inputs, again.targets))


def test_nobody_draws_from_torch() -> None:
    folder = Path(examples.__file__).parent
    for path in folder.glob("*.py"):
        names = {
            node.attr
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Attribute)
        }
        assert (
            not names & {"randn", "rand_like", "randint", "normal_", "uniform_", "manual_seed"}
            or path.stem == "dropout"
        ), path
    before = torch.get_rng_state()
    for example in EXAMPLES.values():
        example()
    assert torch.equal(torch.get_rng_state(), before)


def test_the_list_and_a_typing_error() -> None:
    listed = command("model examples")
    assert listed.exit_code == 0
    assert len(listed.output.splitlines()) == len(EXAMPLES)
    for name, example in EXAMPLES.items():
        assert f"examples:{name} " in listed.output
        assert example.line in listed.output
    wrong = command("model examples:mpl")
    assert (wrong.exit_code, wrong.output) == (
        2,
        "consistency: there is no example 'mpl'; did you mean mlp?\n",
    )


PAGE = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
SHOWN = {
    "batch-norm-eval-forgotten": "train-mode",
    "batch-norm-stale-statistics": "stale-statistics",
    "dropout-own-masks": "random",
}


def plain(text: str) -> list[str]:
    """The lines, with N for every number: how near two sums come is the machine's business."""
    return [re.sub(r"\d[\d,.]*(e-?\d+)?", "N", line).rstrip() for line in text.splitlines()]


def verdicts(lines: list[str]) -> list[str]:
    """The title, a line for each backend or way, and the mistakes."""
    return [line.partition(" (")[0] for line in lines if not line.startswith("  ")]


def sums_in_bfloat16() -> bool:
    """Whether this torch adds up a layer norm's gradients in 8 bits, so that ones are lost from 256
    on."""
    x, one = (
        torch.randn(2048, 8, generator=torch.Generator().manual_seed(0)).bfloat16(),
        torch.ones(8),
    )
    mean, scale = x.float().mean(1, keepdim=True), torch.ones(2048, 1)
    mask = [True, True, True]
    found = torch.ops.aten.native_layer_norm_backward(
        torch.ones_like(x), x, [8], mean, scale, one, torch.zeros(8), mask
    )
    return float(found[2].max()) < 2000.0


def as_the_page_shows(name: str, folder: Path) -> None:
    """What an example prints, in the lines that say how it ends, is what the page shows; and it
    ends as it is meant to."""
    (shown,) = re.findall(
        rf"^```text\n\$ (consistency model examples:{name} .*)\n([^`]*)```$", PAGE, re.MULTILINE
    )
    done = CliRunner().invoke(
        main, [*shlex.split(shown[0])[1:], "--json", str(folder / "report.json")]
    )
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert [mistake["name"] for mistake in report["mistakes"]] == (
        [SHOWN[name]] if name in SHOWN else []
    )
    assert not any(way["fails"] for way in report.get("ways", []))
    if name != "autocast-layer-norm" or not sums_in_bfloat16():
        assert (report["verdict"], done.exit_code) == (WITHIN, 0), done.output
    else:
        assert done.exit_code == 1, done.output
        assert report["backends"][0]["first"]["operator"] == "aten.native_layer_norm_backward"
    assert verdicts(plain(done.output)) == verdicts(plain(shown[1]))


@pytest.mark.parametrize("name", QUICK)
def test_rounding_is_not_accused(name: str, tmp_path: Path) -> None:
    as_the_page_shows(name, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - set(QUICK)))
def test_rounding_is_not_accused_by_night(name: str, tmp_path: Path) -> None:
    as_the_page_shows(name, tmp_path)


def test_the_pages_show_every_example_and_every_mistake() -> None:
    mistakes = (ROOT / "docs" / "model-mistakes.md").read_text(encoding="utf-8")
    recorded = (ROOT / "docs" / "model-corpus.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\$ consistency model examples:(\S+)", PAGE, re.MULTILINE)) == set(
        EXAMPLES
    )
    source = Path(preflight.__file__).read_text(encoding="utf-8")
    assert set(re.findall(r'Mistake\(\s*"([a-z-]+)"', source)) == {
        name
        for row in re.findall(r"^\| (`[^|]*) \|", mistakes, re.MULTILINE)
        for name in re.findall(r"`([a-z-]+)`", row)
    } - {"F", "x"}
    for bound in (corpus.LITERAL >> 10, corpus.COUPLED >> 20, corpus.MEMORY >> 20):
        assert re.search(rf"{bound} (K|M)iB", recorded)
    assert f"at most {corpus.RANGES} ranges" in recorded


class LosesWrites(consistency.Backend):
    """A device on which assignments to slices are lost."""

    name = "loses-writes"

    def call(
        self, operator: consistency.Operator, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        target = args[0]
        if (
            operator.name == "aten.copy_"
            and isinstance(target, torch.Tensor)
            and target.storage_offset()
        ):
            # Memory that nobody wrote may by chance hold what a run before left there: the numbers
            # that are lost here.
            return target.zero_()
        return super().call(operator, args, kwargs)


def test_a_device_that_loses_writes_differs_from_itself() -> None:
    (beside,) = compare_variants(
        EXAMPLES["in-place"](),
        variants_of("examples:in-place"),
        [LosesWrites()],
        steps=1,
        replicas=2,
    )
    assert beside.fails
    assert beside.times > 1000
    assert str(beside).startswith("✗ loses-writes: out of place beside in-place: up to")
    assert str(beside).endswith("× the band apart, first at the output of second, step 1")


def test_ways_that_cannot_be_compared_say_so() -> None:
    first = EXAMPLES["in-place"]()

    class Raises(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("no such kernel")

    (beside,) = compare_variants(
        first, [Variant("another", Subject(Raises(), first.inputs))], ["cpu"], steps=0, replicas=2
    )
    assert (
        str(beside) == "✗ cpu: another raises where in-place does not: RuntimeError: no such kernel"
    )
    assert [mistake.name for mistake in beside.mistakes] == ["other-weights"]
    (same,) = compare_variants(
        first, [Variant("itself", EXAMPLES["in-place"]())], ["cpu"], steps=0, replicas=2
    )
    assert same.same
    assert "the same bits in all" in str(same)
    raises = Variant("another", Subject(Raises(), first.inputs))
    assert (
        compare_variants(first, [raises], [Lost()], steps=0, replicas=2) == ()
    )  # of the first, compare_models has told


class Lost(consistency.Backend):
    """A device that is gone after the first products."""

    name = "lost"

    def call(
        self, operator: consistency.Operator, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        if operator.name == "aten.addmm":
            raise RuntimeError("device lost")
        return super().call(operator, args, kwargs)


def test_batches_that_can_only_be_gone_through(tmp_path: Path) -> None:
    def subject() -> Subject:
        torch.manual_seed(0)
        batches = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(torch.rand(4, 3)), batch_size=2
        )
        return Subject(torch.nn.Linear(3, 2), batches=batches, steps=2, name="one")  # type: ignore[arg-type]

    (same,) = compare_variants(subject(), [subject()], ["cpu"], replicas=2)
    assert same.same, same
    assert capture.record(subject(), tmp_path / "corpus").cases > 0
    (inputs, _) = Subject(torch.nn.Linear(3, 2), batches=[torch.ones(2, 3)]).batch(0)  # type: ignore[list-item]
    assert [tuple(x.shape) for x in inputs] == [(2, 3)]


def test_recording_from_the_command_line(tmp_path: Path) -> None:
    done = command("model examples:recurrent --record {}", tmp_path / "corpus")
    assert done.exit_code == 0, done.output
    assert "distinct ones kept, " in done.output
    assert f"next: consistency run --backend SPEC --corpus {tmp_path / 'corpus'}" in done.output
    again = command("model examples:recurrent --record {}", tmp_path / "corpus")
    assert again.exit_code == 2
    assert "already holds a recording" in again.output
    both = command("model examples:recurrent --record {} -b cpu", tmp_path / "other")
    assert both.exit_code == 2
    assert "leave the other options out" in both.output
