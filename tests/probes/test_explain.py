"""Why two ways to compute differ: planted differences are explained to the bit, or what remains is
said."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import consistency
from consistency import backends, operators
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.generate.materialize import prepare
from consistency.probes.explain import account, fingerprints, of_case, of_formula
from consistency.probes.explain.compared_sides import Side
from consistency.probes.explain.properties import confirmed
from consistency.probes.explain.rendering import lines, picture, to_json
from consistency.probes.fingerprint.facts import Fact, Fingerprint
from consistency.probes.fingerprint.summary import fact_of, lines_of, summary_of
from consistency.probes.summation.notation import text
from consistency.probes.sweep.plans import plan_of
from tests.support.commands import command
from tests.support.snapshots import Snapshot
from tests.support.synthetic.orders import BIAS, Convolving, Sums, blocks, pairwise, sequential

SMALL = {"N": 8, "K": 48, "M": 16}
LINEAR = plan_of("linear")
CASE = LINEAR.case("float32", SMALL, 0)


def planted(terms: int, rows: int, columns: int) -> Any:
    """Blocks of 16; a linear layer's bias enters the first (where there is none, the sum is the
    same)."""
    first, *rest = blocks(terms, 16)
    return sequential([first, BIAS, *rest])


class Blocks(Sums):
    """``linear`` with the bias in the first block; ``matmul`` without one; FMA."""

    def __init__(self) -> None:
        super().__init__(planted, fused=True)
        self.plain = Sums(lambda terms, rows, columns: sequential(blocks(terms, 16)), fused=True)

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        return (super() if operator.name == "nn.functional.linear" else self.plain).call(
            operator, args, kwargs
        )


def test_a_planted_bias_is_found_with_the_size_up_to_which_both_agree() -> None:
    found = of_formula(LINEAR, "x @ W.T + b", Blocks(), SMALL, "float32")
    assert found.explained
    assert found.rounding
    assert found.threshold is not None
    assert (found.threshold.predicted, found.threshold.measured, found.threshold.confirmed) == (
        16,
        16,
        True,
    )
    told = "\n".join(lines(found))
    assert "Fully explained: 128 of 128 outputs replayed bit for bit, on both sides." in told
    assert "Both sum 48 products in the same order with FMA: 3 × [sequential 16]." in told
    assert "F.linear adds the bias behind the first 16; x @ W.T + b after the last." in told
    assert (
        "They agree exactly while K ≤ 16: so the trees say, and so it is (K = 16: the same bits; "
        "K = 17: "
    ) in told
    data = to_json(found)
    assert data["explained"] is True
    assert data["threshold"]["predicted"] == 16
    assert json.loads(json.dumps(data))["sides"][0]["orders"][0]["fma"] is True
    drawn = picture(found)
    root = ElementTree.fromstring(drawn)
    assert root.tag.endswith("svg")
    assert drawn.count(">bias<") == 2


def test_a_size_that_the_trees_do_not_predict_is_measured() -> None:
    """Where small sizes are cut otherwise, the prediction fails, and that is said."""

    class Switching(Blocks):
        def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
            if operator.name == "nn.functional.linear" and args[0].shape[1] <= 30:
                return super().call(consistency_linear(), [args[0], args[1].T], {}) + args[2]
            return super().call(operator, args, kwargs)

    def consistency_linear() -> Any:
        return operators.get("matmul")

    found = of_formula(LINEAR, "x @ W.T + b", Switching(), SMALL, "float32")
    assert found.explained
    assert found.threshold is not None
    assert (found.threshold.predicted, found.threshold.measured) == (16, 30)
    assert "(measured: K = 30: the same bits; " in lines(found)[-1]
    assert "the trees of this size say 16" in lines(found)[-1]


def test_the_question_that_began_it_on_this_machine() -> None:
    """Whatever the library does: it is explained to the bit, or it is said what remains; never a
    claim beside the replay."""
    found = of_formula(
        LINEAR, "x @ W.T + b", backends.resolve("cpu"), {"N": 8, "K": 300, "M": 32}, "float32"
    )
    assert found.rounding
    assert found.explained == (found.replayed == found.elements == 256)
    told = "\n".join(lines(found))
    assert ("ully explained" in told or "Found" in told) == found.explained


def test_two_backends_on_a_case() -> None:
    other = Sums(lambda terms, rows, columns: (pairwise(range(terms)), BIAS))
    other.name = "pairs"
    found = of_case(CASE, Blocks(), other)
    assert found.explained
    assert found.properties == ()
    assert "pairs sums [pairwise 32] + [pairwise 16] + bias with products rounded." in "\n".join(
        lines(found)
    )


def by_place(first: Any, third: Any = None) -> Any:
    """In images of 5 rows of 6 places (6 of 8 with padding) the first two of each row in one order,
    the last in a ``third``, the others in pairs.
    """

    def choose(terms: int, rows: int, columns: int) -> Any:
        wide = 8 if rows % 48 == 0 else 6
        across = np.repeat((np.arange(rows) % wide)[:, None], columns, 1)
        last = across == wide - 1 if third else across < 0
        found = [(across < 2, first(range(terms))), ((across >= 2) & ~last, pairwise(range(terms)))]
        return [*found, (last, third(range(terms)))] if third else found

    return choose


def backwards(terms: Any) -> Any:
    return sequential([*reversed(terms)])


def convolution(padding: int) -> Case:
    """2 images, 3 channels: 2 × 3 × 5 × 6 outputs, or 2 × 3 × 6 × 8, of 18 and 8 terms."""
    shapes = (
        (2, 2, 7, 8) if not padding else (2, 2, 5, 7),
        (3, 2, 3, 3) if not padding else (3, 2, 2, 2),
    )
    tensors = [
        TensorRecipe(shape, "float32", ("uniform", -1.0, 1.0), (k + 1) << 20)
        for k, shape in enumerate(shapes)
    ]
    return Case("nn.functional.conv2d", "float32", (*tensors, None, 1, padding))


def test_places_of_a_convolution_that_add_otherwise_are_told_and_replayed(
    snapshot: Snapshot,
) -> None:
    """Without padding every place is asked. With it, those that read padding are found by what
    replays them."""
    planted, healthy = (
        Convolving(by_place(sequential)),
        Convolving(lambda terms, rows, columns: pairwise(range(terms))),
    )
    healthy.name = "pairs"
    found = of_case(convolution(0), planted, healthy)
    told = "\n".join(lines(found))
    assert "Fully explained: 180 of 180 outputs replayed bit for bit, on both sides." in told
    assert "pairs sums [pairwise 16] + [sequential 2] with products rounded." in told
    assert (
        "  sums sums\n    at 120 outputs, [:, :, :, 2:]: [pairwise 16] + [sequential 2] with "
        "products rounded.\n"
    ) in told
    assert "    at 60 outputs, [:, :, :, :2]: sequential 18 with products rounded." in told
    snapshot(to_json(found)["sides"][0]["orders"][1]["where"])
    assert "[:, :, :, :2]" in picture(found)
    padded = of_case(convolution(1), planted, healthy)
    told = "\n".join(lines(padded))
    assert "Fully explained: 288 of 288 outputs replayed bit for bit, on both sides." in told
    assert "sequential 8 with products rounded" in told


def test_places_that_cannot_be_asked_and_add_in_an_order_of_their_own_are_what_remains() -> None:
    """The last column reads padding. Four of its six places have more than two terms, so that their
    order matters."""
    planted = Convolving(by_place(sequential, backwards))
    asked = Side("planted", planted).orders(
        operators.get("nn.functional.conv2d"), prepare(convolution(0))
    )
    assert asked.exact
    assert [(order.outputs, order.where) for order in asked.orders] == [
        (90, "[:, :, :, 2:5]"), (60, "[:, :, :, :2]"), (30, "[:, :, :, 5:]"),
    ]  # fmt: skip
    found = account(
        convolution(1),
        (Side("planted", planted), Side("without", Convolving(by_place(sequential)))),
    )
    assert not found.explained
    told = "\n".join(lines(found))
    assert (
        "what was found, with and without FMA, does not give 24 of 288 outputs; [0, 0, 1, 7] is "
        in told
    )


class Shorter(consistency.Backend):
    """Factors of 11 bits, rounded to even; the rest is torch's."""

    name = "shorter"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        if operator.name == "nn.functional.linear" and args[0].dtype == torch.float32:
            args = [*(_short(x) for x in args[:2]), *args[2:]]
        return super().call(operator, args, kwargs)


def _short(x: torch.Tensor) -> torch.Tensor:
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)


def test_factors_of_fewer_bits_are_replayed_as_well() -> None:
    found = of_case(CASE, backends.resolve("cpu"), Shorter())
    assert not found.rounding
    if found.orders[0].exact:  # the library's order was found, so that only the factors are left
        assert found.explained
        assert "factors rounded to 11 bits (nearest even)" in "\n".join(lines(found))


class Wrong(consistency.Backend):
    """The right order for probes, another number for others: nothing may be explained."""

    name = "wrong"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        found = super().call(operator, args, kwargs)
        large = any(isinstance(x, torch.Tensor) and float(x.abs().max()) > 1e6 for x in args)
        return found if large or operator.name != "nn.functional.linear" else found * (1 + 2.0**-20)


def test_what_remains_is_said() -> None:
    found = of_case(CASE, backends.resolve("cpu"), Wrong())
    assert not found.explained
    told = "\n".join(lines(found))
    assert "What remains" in told or "Not explained" in told
    assert "wrong: " in told


def test_sums_that_nobody_knows_here_are_inconclusive() -> None:
    case = plan_of("cumsum").case("float32", {"R": 4, "N": 32}, 0)
    found = of_case(case, backends.resolve("cpu"), backends.resolve("cpu+threads=1"))
    assert not found.explained
    assert not picture(found)
    if found.differing:
        assert "which numbers cumsum adds up is not known here" in "\n".join(lines(found))


def test_two_fingerprints_in_words(snapshot: Snapshot) -> None:
    left = Fingerprint.of(
        "a",
        [
            Fact("exp/float32/ulp", "0.5"),
            Fact("exp/float32/bits", "x"),
            Fact("matmul/float32/order", "sequential 4"),
        ],
    )
    right = Fingerprint.of(
        "b",
        [
            Fact("exp/float32/ulp", "0.6"),
            Fact("exp/float32/bits", "y"),
            Fact("matmul/float32/order", "pairwise 4"),
        ],
    )
    snapshot(list(fingerprints.lines(left, right)))
    assert "compute alike: all 3 facts" in next(fingerprints.lines(left, left))
    assert "no question in common" in next(fingerprints.lines(left, Fingerprint.of("c", [])))


def test_a_cause_is_confirmed_by_a_property_or_not(snapshot: Snapshot) -> None:
    eleven, full = (
        Fact("linear/float32/multiplicand", "11 bits, nearest even"),
        Fact("linear/float32/multiplicand", "24 bits"),
    )
    snapshot(confirmed("tf32-inputs", eleven, "cuda"))
    assert "does not confirm it" in confirmed("tf32-inputs", full, "cuda")
    assert confirmed("lost-write", eleven, "cuda") == ""
    assert "does not tell" in confirmed(
        "tf32-inputs", Fact("linear/float32/multiplicand", inconclusive="noise"), "cuda"
    )
    split = Fact("matmul/float32/multiplicand", "17 bits, in parts")
    assert " confirms it" in confirmed("bfloat16x3-inputs", split, "cpu")
    assert "does not confirm it" in confirmed(
        "bfloat16-inputs", Fact("matmul/float32/multiplicand", "18 bits"), "cpu"
    )


def test_answers_come_back_out_of_what_bundles_keep() -> None:
    """Every answer about products and subnormal numbers; none where an earlier version stored
    lines."""
    answers = {
        "matmul/float32/multiplicand": "first factor 11 bits, nearest even; second factor 24 bits",
        "matmul/float32/accumulator": "24 bits, toward zero; 26 among terms added together",
        "matmul/float32/products": "exact",
        "bmm/float32/multiplicand": "24 bits", "bmm/float32/accumulator": "24 bits, nearest even",
        "matmul/float32/subnormals": "inputs flushed", "bmm/float32/subnormals": "inputs flushed",
        "bmm/bfloat16/subnormals": "inputs and results flushed",
        "exp/bfloat16/subnormals": "inputs flushed",
        "exp/float32/subnormals": "kept",
    }  # fmt: skip
    stored = summary_of(
        Fingerprint.of("x", [Fact(question, answer) for question, answer in answers.items()])
    )
    for question, answer in answers.items():
        found = fact_of(stored, question)
        assert found is not None
        assert found.answer == answer
    assert fact_of(stored, "matmul/float64/multiplicand") is None
    lines = lines_of(stored)
    assert lines["sums of products float32"] == (
        "matmul: factors first factor 11 bits, nearest even; second factor 24 bits; running sum "
        "24 bits, toward zero; 26 among terms added together; products exact | bmm: factors 24 "
        "bits; running sum 24 bits, nearest even"
    )
    assert lines_of(lines) == lines  # as an earlier version stored them
    assert fact_of(lines, "matmul/float32/multiplicand") is None


def test_the_command_tells_draws_and_writes_json(tmp_path: Path) -> None:
    drawn = tmp_path / "trees.svg"
    result = command("explain matmul {} --shape 4,64,8 -o {}", "a @ b", drawn)
    assert result.exit_code in (0, 3), result.output
    assert "give the same bits" in result.output
    if result.exit_code == 0:
        assert drawn.read_text(encoding="utf-8").startswith("<svg")
    result = command("explain matmul {} --shape 4,64,8 --json", "(b.T @ a.T).T")
    assert json.loads(result.stdout.splitlines()[-1])["operator"] == "matmul"


def test_files_of_fingerprints(tmp_path: Path) -> None:
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    for path, answer in ((a, "kept"), (b, "flushed")):
        found = Fingerprint.of(path.stem, [Fact("exp/float32/subnormals", answer)])
        path.write_text(json.dumps(found.to_json()) + "\n", encoding="utf-8")
    result = command("explain", a, b)
    assert result.exit_code == 0
    assert "exp float32: kept → flushed" in result.output
    assert (
        json.loads(command("explain {} {} --json", a, b).output)["differences"][0]["kind"]
        == "subnormal numbers"
    )


@pytest.mark.parametrize(("arguments", "words"), [
    (["linear", "x @ W.T + c"], "what is 'c'"),
    (["linear", "x @ W.T + b", "--shape", "3,4"], "has the sizes N, K, M"),
    (["linear", "x @ W.T + b", "--shape", "0,4,5"], "has the sizes N, K, M"),
    (["linear", "x @ W.T + b", "--dtype", "int8"], "--dtype 'int8'"),
    (["linear", "x @ W.T + b", "--backend", "cuda:99"], "cannot be used here"),
    (["nosuch", "x + y"], "there is no backend 'nosuch'|no operator"),
    (["cpu", "nosuch"], "there is no backend 'nosuch'"),
    (["exp", "cpu"], "cpu is a backend, not a formula; .* explain exp 'FORMULA' -b cpu"),
    (["cpu", "numpy", "--case", "{"], "not a case"),
    (["linear", "x", "--shape", "4,8,16"], "results of two shapes"),
])  # fmt: skip
def test_bad_usage_is_one_line(
    arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import re

    from consistency.probes.fingerprint import collect

    monkeypatch.setattr(
        collect, "take", lambda backend, *rest, **more: Fingerprint.of(backend.name, [])
    )
    result = command("explain", *arguments)
    assert result.exit_code == 2, result.output
    assert len(result.output.strip().splitlines()) == 1
    assert re.search(words, result.output), result.output


@pytest.mark.parametrize("content", ["", "[]", "{", '{"fingerprint": 99}', "\udcff"])
def test_a_file_that_is_no_fingerprint(tmp_path: Path, content: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    result = command("explain", path, path)
    assert result.exit_code == 2
    assert len(result.output.strip().splitlines()) == 1


@pytest.mark.nightly
def test_the_whole_question_within_half_a_minute() -> None:
    """32 × 2048 → 512: 16,384 outputs of 2,048 terms."""
    found = of_formula(
        LINEAR, "x @ W.T + b", backends.resolve("cpu"), {"N": 32, "K": 2048, "M": 512}, "float32"
    )
    assert found.explained
    assert found.replayed == 16_384
    if found.threshold is not None and found.threshold.predicted:
        assert found.threshold.confirmed
    assert text(found.orders[0].orders[0].tree)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "spec", ["cpu+env:ATEN_CPU_CAPABILITY=default", "cpu+threads=1", "cpu+env:MKL_CBWR=COMPATIBLE"]
)
def test_real_configurations(spec: str) -> None:
    """Workers are asked the same way, and each is explained."""
    left, right = backends.resolve("cpu"), backends.resolve(spec)
    try:
        found = of_case(LINEAR.case("float32", {"N": 8, "K": 700, "M": 24}, 0), left, right)
    finally:
        right.close()
    assert found.explained, lines(found)


@pytest.mark.one_in(16)
@pytest.mark.parametrize(
    "line",
    [
        '{"operator":"sum","dtype":"int64","args":[{"tensor":{"base":[4,8],"dtype":"int64","stop":99,"values":["integers",-5,5]}}]}',
        '{"operator":"sum","dtype":"complex64","args":[{"tensor":{"base":[4,8],"dtype":"complex64","stop":99}}]}',
        '{"operator":"sum","dtype":"float32","args":[{"tensor":{"base":[0,8],"dtype":"float32","stop":99}},1]}',
        '{"operator":"isnan","dtype":"float32","args":[{"tensor":{"base":[4,8],"dtype":"float32","stop":99}}]}',
        '{"operator":"sort","dtype":"float32","args":[{"tensor":{"base":[4,8],"dtype":"float32","stop":99}}]}',
        '{"operator":"sum","dtype":"float32","args":[{"tensor":{"base":[2,8],"dtype":"float32","stop":99,"special":[[0,"nan"]]}},1]}',
        '{"operator":"matmul","dtype":"float16","args":[{"tensor":{"base":[4,8],"dtype":"float16","stop":99}},'
        '{"tensor":{"base":[8,8],"dtype":"float16","stop":999}}]}',
    ],
    ids=["int64", "complex", "empty", "bool", "two results", "NaN", "float16"],
)  # fmt: skip
def test_any_case_is_told_about(line: str) -> None:
    result = command("explain cpu cpu+threads=1 --case {}", line)
    assert result.exit_code in (0, 1, 3), result.output
    assert "give the same bits" in result.output or "differ" in result.output


def test_what_bundles_keep(tmp_path: Path) -> None:
    def bundle(name: str, **fingerprint: str) -> str:
        folder = tmp_path / name
        folder.mkdir()
        kept = {
            "cpu": {"device": "cpu", **({"fingerprint": fingerprint} if fingerprint else {})},
            "numpy": {"device": "cpu"},
        }
        (folder / "environment.json").write_text(json.dumps(kept), encoding="utf-8")
        return str(folder)

    one = bundle("one", float64="53 bits", sums="11 bits", hash="a")
    two, none = (
        bundle("two", float64="24 bits", sums="?", hash="b"),
        bundle("none"),
    )  # "?": not established
    result = command("explain", one, f"{two}#cpu")
    assert result.exit_code == 0, result.output
    assert "1 of 2 lines differ" in result.output
    assert "  float64: 53 bits → 24 bits" in result.output
    assert "compute alike, as far as a bundle keeps it" in command("explain", one, one).output
    assert json.loads(command("explain {} {} --json", one, two).output)["differences"]
    for arguments, words in (
        ((one, none), "keeps no fingerprint"),
        ((one, f"{two}#cuda"), "keeps fingerprints of cpu; write"),
    ):
        result = command("explain", *arguments)
        assert result.exit_code == 2
        assert words in result.output
    (tmp_path / "one" / "environment.json").write_text("[", encoding="utf-8")
    result = command("explain", one, two)
    assert (result.exit_code, len(result.output.strip().splitlines())) == (2, 1)
