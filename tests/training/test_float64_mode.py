"""The mode that runs a model in float64."""

from __future__ import annotations

import torch

from consistency.training.float64_mode import Float64Mode, Modules, WorkingFormats


def test_everything_is_computed_in_float64() -> None:
    with Float64Mode(WorkingFormats(), Modules()):
        third = torch.ones(3) / 3
    assert third.dtype == torch.float64
    assert third[0] == 1 / 3


def test_the_programs_default_dtype_stays() -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float16)
    try:
        with Float64Mode(WorkingFormats(), Modules()):
            torch.ones(3) + 1
            assert torch.get_default_dtype() == torch.float16
        assert torch.ones(1).dtype == torch.float16
    finally:
        torch.set_default_dtype(before)
