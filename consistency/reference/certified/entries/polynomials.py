"""Orthogonal polynomials."""

from __future__ import annotations

from typing import Any

from ..elementwise import Function
from ..polynomial_functions import POLYNOMIALS
from . import ENTRIES


def _of(polynomial: Function) -> Any:
    return lambda x, n: polynomial(x, n)


for _name, _polynomial in POLYNOMIALS.items():
    ENTRIES[f"special_{_name}"] = _of(_polynomial)
