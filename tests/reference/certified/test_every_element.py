"""Operators × dtypes of which once no element could be proved, or was proved to be another."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from consistency.core.model import Case
from consistency.generate.materialize import prepare
from consistency.operators import get
from consistency.reference import Reference


def drawn(dtype: str, base: list[int], values: list[Any], **more: Any) -> dict[str, Any]:
    return {"tensor": {"base": base, "dtype": dtype, "stop": 900, "values": values, **more}}


INTEGERS = ["integers", 0, 9]
UNIFORM = ["uniform", -8.0, 8.0]
CASES = {
    "bincount uint8": ("bincount", "uint8", [drawn("uint8", [31], INTEGERS)]),
    "bincount of nothing": ("bincount", "uint8", [drawn("uint8", [0], INTEGERS)]),
    "_foreach_copy_": (
        "_foreach_copy_", "float32",
        [[drawn("float32", [3, 2], UNIFORM), drawn("float32", [4], UNIFORM)],
         [drawn("float32", [3, 2], INTEGERS), drawn("float32", [4], INTEGERS)]],
    ),
    "division by zero, floored": (
        "floor_divide", "float32",
        [drawn("float32", [9], UNIFORM, special=[[0, "inf"], [1, "-inf"], [2, "0"], [3, "nan"]]),
         drawn("float32", [9], ["tokens", -1.0, 1.0, "0", "-0"])],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_every_element_is_proved_to_be_what_float64_is(name: str) -> None:
    operator, dtype, args = CASES[name]
    body = {"operator": operator, "dtype": dtype, "args": args, "kwargs": {}, "cotangent": 1}
    reference = Reference(get(operator), prepare(Case.from_line(json.dumps(body))), "forward")
    for index, output in enumerate(reference.outputs):
        assert output.tensor is not None
        expected = output.tensor.detach().clone().reshape(-1)
        proved = reference.proofs.certifier.prove(index, range(len(expected)), 5.0)
        assert all(certificate is not None for certificate in proved), reference.proofs.reason
        numbers = [float(c.high) for c in proved if c is not None]
        torch.testing.assert_close(
            torch.tensor(numbers, dtype=torch.float64), expected.double(), equal_nan=True,
            rtol=1e-15, atol=0.0,
        )  # fmt: skip
