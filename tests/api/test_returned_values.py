"""What a user's function returns must be numbers of a backend."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import consistency
from consistency.errors import UsageError

X = torch.linspace(0.1, 1.0, 8)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (lambda x: "hello", "'hello', a str, in which there are no numbers"),
        (lambda x: {"name": b"abc"}, "a bytes, in which there are no numbers"),
        (lambda x: x.numpy() * 2, r"a NumPy array, .* leave \.numpy\(\) out"),
        (lambda x: (x, x.numpy()), "a NumPy array"),
    ],
)
def test_what_is_no_number_of_a_backend_is_refused_in_a_sentence(value: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        consistency.assert_consistent(value, X, backends=["cpu"])


@pytest.mark.parametrize(
    "value", [lambda x: (x * 2, "label"), lambda x: x.shape[0], lambda x: float(8), torch.exp]
)
def test_numbers_and_tensors_with_labels_are_judged(value: Any) -> None:
    (result, *_) = consistency.assert_consistent(value, X, backends=["cpu"])
    assert result.verdict.passes
