"""What no case varies is found: a dtype that torch takes, an argument seen in one way only."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

import torch

from consistency import operators
from consistency.engine import argument_coverage as found
from consistency.operators.declare import Call, Drawing, call


def test_a_dtype_that_is_not_drawn_is_named_with_a_reason() -> None:
    sine = operators.get("sin")
    offered = found.dtypes_offered([sine])
    assert offered is not None
    assert {"float32", "uint8", "bool"} <= offered["sin"]
    assert not found.dtypes_missing([sine], offered)
    missing = found.dtypes_missing([replace(sine, dtypes=("float32",))], offered)
    assert missing["sin uint8"] == "not declared yet"


def test_nearly_every_pair_that_torch_takes_is_drawn() -> None:
    declared = list(operators.registry().values())
    offered = found.dtypes_offered(declared)
    assert offered is not None
    taken = sum(map(len, offered.values()))
    # 230 of 4,833 in torch 2.13. 2.15 takes 13 more, such as dropout of complex numbers.
    share = 0.05 if torch.__version__ < "2.14" else 0.051
    assert len(found.dtypes_missing(declared, offered)) <= share * taken


def test_no_reason_names_a_pair_that_is_drawn() -> None:
    named = [reason for reason in found.DTYPE_REASONS if "*" not in reason[:2]]
    assert named
    drawn = [(o.name, dtype) for o in operators.registry().values() for dtype in o.dtypes]
    assert [
        (operator, dtype, words)
        for operators_, dtypes, words in named
        for operator, dtype in drawn
        if fnmatchcase(operator, operators_) and fnmatchcase(dtype, dtypes)
    ] == []


def test_every_reason_is_needed() -> None:
    declared = list(operators.registry().values())
    offered = found.dtypes_offered(declared)
    assert offered is not None
    given = set(found.dtypes_missing(declared, offered).values())
    assert {words for *_, words in found.DTYPE_REASONS} == given


def test_an_argument_that_never_leaves_or_takes_its_default_is_found() -> None:
    def always(d: Drawing) -> Call:
        return call(d.tensor((4,)), 2.0)

    def never(d: Drawing) -> Call:
        return call(d.tensor((4,)))

    power = replace(operators.get("nn.functional.elu"), sample=always)
    assert ("alpha", "took") in {(u.argument, u.missing) for u in found.unvaried(power, 5)}
    left = {(u.argument, u.missing) for u in found.unvaried(replace(power, sample=never), 5)}
    assert ("alpha", "left") in left
    assert not [
        u for u in found.unvaried(operators.get("nn.functional.elu")) if u.argument == "alpha"
    ]


def test_defaults_come_from_python_or_from_the_schema() -> None:
    assert found.defaults(operators.get("nn.functional.elu"))["alpha"] == 1.0
    assert found.defaults(operators.get("sum"))["keepdim"] is False
