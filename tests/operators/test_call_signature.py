"""The arguments of an operator as torch writes them."""

from __future__ import annotations

from consistency.operators import registry
from consistency.operators.call_signature import argument_names, call_signature


def test_signatures() -> None:
    known = registry()
    assert call_signature(known["softmax"]) == "softmax(input, dim, *, dtype=None)"
    assert call_signature(known["nn.functional.layer_norm"]) == (
        "nn.functional.layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-05)"
    )
    assert argument_names(known["softmax"]) == ("input", "dim")
    assert argument_names(known["nn.functional.conv2d"])[:3] == ("input", "weight", "bias")
    assert argument_names(known["exp_"]) == ("input",)  # of ATen's schema


def test_nearly_every_operator_has_one() -> None:
    absent = [one.name for one in registry().values() if one.callable and not call_signature(one)]
    assert len(absent) <= 8, absent
