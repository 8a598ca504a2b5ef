"""What is known of factorizations by definition agrees with what torch's factors give, and is
proved in full."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from consistency import operators
from consistency.generate import search
from consistency.generate.materialize import prepare
from consistency.reference import Reference, quiet
from consistency.reference.certified.certificate import Certifier

LARGE = 64
NAMES = [
    f"linalg.{name}"
    for name in ("svd", "eigh", "eigvals", "eig", "qr", "lu", "lu_factor", "lu_factor_ex")
]


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", NAMES)
def test_observed_quantities_are_those_of_torch(name: str, dtype: str) -> None:
    operator = operators.registry()[name]
    small = [c for c in search.batch(operator, dtype, 8, 0) if max(c.tensors[0].base) < LARGE]
    assert len(small) > 3
    for case in small[:3]:  # of larger matrices nothing is proved: it would take too long
        materials = prepare(case)
        with quiet(), warnings.catch_warnings():
            reference = Reference(operator, materials, "forward")
            certifier = Certifier(operator, materials, "forward")
            assert len(certifier.outputs()) == len(reference.outputs)
            given = materials.build("float64").args[0]
            largest = float(given.abs().max())  # of which eigenvalues are compared by their cubes
            scale = max(largest, largest**3) * given.numel()
            for i, output in enumerate(reference.outputs):
                assert output.tensor is not None
                values = output.tensor.reshape(-1)
                some = np.random.default_rng(1).integers(0, values.numel(), 4).tolist()
                for position, certificate in zip(some, certifier.prove(i, some), strict=True):
                    assert certificate is not None, (i, certifier.reason)
                    size = scale + float(values.abs().max()) * given.numel()
                    assert abs(values[position].item() - certificate.high) <= 1e-13 * size
    assert torch.get_num_threads() == 1
