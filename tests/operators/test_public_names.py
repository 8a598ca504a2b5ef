"""Every name that torch has for a function finds the operator that is declared for it."""

from __future__ import annotations

import pytest
import torch

from consistency import operators
from consistency.errors import UsageError
from consistency.generate.calls.opinfo import database
from consistency.operators import registry
from consistency.operators.public_names import find_name
from consistency.probes.sweep.plans import plan_of

NAMES = {
    "nn.functional.softmax": "softmax",
    "torch.nn.functional.layer_norm": "nn.functional.layer_norm",
    "F.gelu": "nn.functional.gelu", "gelu": "nn.functional.gelu", "torch.softmax": "softmax",
    "Tensor.add_": "add_", "torch.Tensor.matmul": "matmul", "aten::addmm": "addmm",
    "aten.addmm.default": "addmm", "torch.ops.aten.addmm.out": "addmm.out",
    "aten::linalg_inv_ex": "linalg.inv_ex", "aten::gelu": "nn.functional.gelu",
    "aten::clamp_min.Tensor_out": "clamp_min.out", "special.i0": "i0",
    "torch.special.expit": "sigmoid", "special.psi": "digamma", "special.gammaln": "lgamma",
    "clip": "clamp", "clip_": "clamp_", "torch.absolute": "abs", "arccos": "acos",
    "arccos_": "acos_", "multiply": "mul", "divide": "div", "greater_equal": "ge",
    "concatenate": "cat", "row_stack": "vstack", "torch.det": "linalg.det",
    "torch.conv2d": "nn.functional.conv2d", "F.conv2d": "nn.functional.conv2d",
    "torch.functional.norm": "norm", "nn.LayerNorm": "nn.functional.layer_norm",
    "torch.nn.BatchNorm2d": "nn.functional.batch_norm", "nn.GELU": "nn.functional.gelu",
    "nn.CrossEntropyLoss": "nn.functional.cross_entropy", "nn.LSTM": "lstm",
    "nn.ZeroPad2d": "nn.functional.pad", "nn.Softmax": "softmax",
    "native_layer_norm": "nn.functional.layer_norm",
}  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), NAMES.items())
def test_names_that_people_use(name: str, expected: str) -> None:
    if expected not in registry():
        pytest.skip(f"{expected} is no operator here")
    assert operators.get(name).name == expected
    assert [one.name for one in operators.select([name, expected])] == [expected]


def test_every_operator_is_found_with_torch_before_it() -> None:
    for name in registry():
        assert find_name(name, registry()) == name
        if not name.startswith("__"):
            assert find_name(f"torch.{name}", registry()) == name


def test_aliases_of_torch_s_own_database_are_found() -> None:
    """The aliases that torch tests, an independent list."""
    aliases = {
        alias.name: info.name
        for info in database()
        for alias in info.aliases
        if info.name in registry()
    }
    assert len(aliases) >= 40
    wrong = {
        alias: find_name(alias, registry())
        for alias, name in aliases.items()
        if find_name(alias, registry()) not in (name, alias)
    }
    assert wrong == {}


def test_every_function_that_is_declared_is_found_by_the_function_itself() -> None:
    """By every place where torch shows the same object."""
    places = {
        "torch.": torch, "torch.nn.functional.": torch.nn.functional,
        "torch.linalg.": torch.linalg, "torch.special.": torch.special, "torch.fft.": torch.fft,
    }  # fmt: skip
    declared = {id(one.callable): one.name for one in registry().values() if one.callable}
    checked = 0
    for prefix, module in places.items():
        for name in dir(module):
            expected = declared.get(id(getattr(module, name)))
            if expected is not None and not name.startswith("_"):
                found = find_name(prefix + name, registry())
                assert found is not None
                assert registry()[found].callable is registry()[expected].callable, prefix + name
                checked += 1
    assert checked > 300


@pytest.mark.parametrize("name", ["torch.nosuch", "foo.softmax", "nn.Nosuch", "aten::", "F.", ""])
def test_other_names_are_no_operator(name: str) -> None:
    with pytest.raises(UsageError, match="there is no operator"):
        operators.get(name)


def test_what_torch_has_and_we_have_not_is_said() -> None:
    with pytest.raises(UsageError, match=r"'torch\.svd_lowrank', though torch has that function"):
        operators.get("torch.svd_lowrank")
    with pytest.raises(UsageError, match=r"did you mean nn\.functional\.gelu"):
        operators.get("F.gelo")


def test_a_case_names_its_operator_exactly() -> None:
    with pytest.raises(UsageError):
        operators.exactly("torch.softmax")


def test_globs_with_a_module_before() -> None:
    chosen = [one.name for one in operators.select(["F.*pool2d"])]
    assert "nn.functional.max_pool2d" in chosen
    assert chosen == [one.name for one in operators.select(["nn.functional.*pool2d"])]


def test_sweeps_take_the_names_too() -> None:
    assert plan_of("F.linear") is plan_of("linear") is plan_of("nn.functional.linear")
    assert plan_of("torch.special.expit").operator == "sigmoid"
