"""Certified elements of a reference: proved values replace those of float64 on the CPU, for every
dtype and backend."""

from __future__ import annotations

import hashlib
import math
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..core import bits, dtypes
from ..core.model import Output

if TYPE_CHECKING:
    from .certified.certificate import Certificate
    from .float64 import Reference

_TELLS = 2.0**-12  # ulp of the tested dtype; smaller corrections cannot change a verdict
_OFF = 16.0  # ulp of float64; with a larger error, the CPU's own result counts as wrong
# Where padding, gaps of a stride and what is cropped are zeros to multiply with in one kernel and
# left out in another: 0 · NaN is NaN.
_WITH_ZEROS = frozenset({"convolution"})
SECONDS = 2.0  # time limit for the elements of one output


class Proofs:
    """The proved elements of one :class:`~consistency.reference.Reference`.

    ``certificates`` are keyed by output and flat position, as are ``refused`` (no proof) and
    ``wrong``: floating-point elements where float64 on the CPU was off by more than 16 ulp, and
    others where it differed. ``reason`` says why an element could not be proved.
    """

    def __init__(self, reference: Reference) -> None:
        # Imported here, because worker processes need neither this nor python-flint.
        from .certified.certificate import Certifier

        # Weak, because the reference holds this object: its tensors must be freed after judging.
        self._reference = weakref.ref(reference)
        self.certificates: dict[tuple[int, int], Certificate] = {}
        self.refused: set[tuple[int, int]] = set()
        self.wrong: set[tuple[int, int]] = set()
        self.reason = ""
        self.certifier = Certifier(
            reference.operator,
            reference.materials,
            reference.direction,
            integers_too=reference.integers_too,
        )

    @property
    def reference(self) -> Reference:
        reference = self._reference()
        assert reference is not None, "a reference's proofs outlive it"
        return reference

    def settle(
        self, index: int, positions: Sequence[int], seconds: float = SECONDS, work: float = math.inf
    ) -> bool:
        """Prove these elements of output ``index`` and write the proved values into the reference;
        whether that changed it.

        Elements that failed under a limit on ``work`` may be tried again later.
        """
        pending = [
            p
            for p in positions
            if (index, p) not in self.certificates and (index, p) not in self.refused
        ]
        if not pending:
            return False
        proved = self.certifier.prove(index, pending, seconds, work)
        self.reason = self.certifier.reason or self.reason
        new = {}
        for position, certificate in zip(pending, proved, strict=True):
            if certificate is None or self._is_of_zeros(index, position, certificate):
                self.refused |= {(index, position)} if work == math.inf else set()
            else:
                self.certificates[index, position] = new[position] = certificate
        return self._replace_elements(index, new) if new else False

    def refuse(self, index: int, position: int) -> None:
        """Prove nothing of this element: what would be traced is the formula that is in doubt."""
        self.certificates.pop((index, position), None)
        self.refused.add((index, position))

    def _is_of_zeros(self, index: int, position: int, certificate: Certificate) -> bool:
        """Whether the definition has a number where the CPU has NaN, and either is right: beside
        NaN or an infinity in a kernel, or in the image of a transposed convolution."""
        tensor, number = self.reference.outputs[index].tensor, certificate.high
        name, family = self.reference.operator.ruled_by
        if tensor is None or family not in _WITH_ZEROS:
            return False
        materials = self.reference.materials
        multiplied = list(zip(materials.case.tensors, materials.bases, strict=True))
        multiplied = multiplied[0 if "transpose" in name else 1 : 2]
        if all(bool(bits.finite(base, tensor.dtype).all()) for tensor, base in multiplied):
            return False
        return number == number and bool(tensor.reshape(-1)[position].isnan())

    def traced(self) -> bool:
        """Whether the whole call could be traced, so that every Python number it read from a tensor
        is exact."""
        try:
            self.certifier.outputs()
        except Exception as reason:
            self.reason = str(reason)
            return False
        return not self.certifier.missing

    def errors(self, index: int, actual: torch.Tensor | None) -> tuple[Any, Any]:
        """The proved flat positions of output ``index`` and the absolute errors of ``actual``
        (float64) there; empty where dtype or shape of ``actual`` do not fit."""
        expected = self.reference.outputs[index].tensor
        if (
            actual is None
            or expected is None
            or actual.dtype != torch.float64
            or actual.shape != expected.shape
        ):
            return np.empty(0, dtype=np.int64), np.empty(0)
        proved = {
            p: c for (i, p), c in self.certificates.items() if i == index and type(c.high) is float
        }
        places = np.fromiter(proved, dtype=np.int64)
        values = actual.detach().reshape(-1)[places].numpy()
        gap = (values - np.array([c.high for c in proved.values()])) - np.array(
            [c.tail for c in proved.values()]
        )
        return places, np.abs(gap)

    def count(self, index: int) -> int:
        return sum(1 for i, _ in self.certificates if i == index)

    def _replace_elements(self, index: int, certificates: dict[int, Certificate]) -> bool:
        reference, output = self.reference, self.reference.outputs[index]
        tensor = output.tensor
        if tensor is None:
            return False
        dtype, narrow = tensor.dtype, tensor.is_floating_point() and tensor.dtype != torch.float64
        numbers = (
            (tensor.double() if narrow else tensor)
            .detach()
            .resolve_conj()
            .resolve_neg()
            .reshape(-1)
            .numpy()
            .copy()
        )
        places = np.fromiter(certificates, dtype=np.int64)
        # NumPy makes float64 of a list with integers on both sides of 2⁶³.
        kind = object if numbers.dtype.kind == "u" else None
        high = np.array([c.high for c in certificates.values()], dtype=kind).astype(numbers.dtype)
        tail = np.array([c.tail for c in certificates.values()]).astype(numbers.dtype)
        before = numbers[places]
        # A zero keeps the CPU's sign: an exact zero has none, and what gives it one is convention
        # (relu(-0) is max(-0, 0)). Where the definition's convention is another, neither is proved.
        both_zero = (before == 0) & (high == 0)
        if numbers.dtype.kind == "f":
            for place in places[both_zero & (np.signbit(before) != np.signbit(high))]:
                unsigned = certificates[int(place)].without_sign()
                self.certificates[index, int(place)] = unsigned
        high = np.where(both_zero, before, high)
        numbers[places] = high
        changed = self._differs(index, places, before, high)
        if numbers.dtype.kind in "fc":
            tails = list(reference.tails)
            old_tail = tails[index]
            new_tail = (
                np.zeros_like(numbers) if old_tail is None else old_tail.reshape(-1).numpy().copy()
            )
            changed = changed or bool(
                (np.abs(new_tail[places] - tail) > _TELLS * self._spacing(high)).any()
            )
            new_tail[places] = tail
            tails[index] = torch.from_numpy(new_tail.reshape(tuple(tensor.shape)))
            reference.tails = tuple(tails)
        replaced = Output(
            output.name,
            torch.from_numpy(numbers.reshape(tuple(tensor.shape))).to(dtype),
            output.dtype,
        )
        reference.outputs = (*reference.outputs[:index], replaced, *reference.outputs[index + 1 :])
        return changed

    def _differs(self, index: int, places: Any, before: Any, high: Any) -> bool:
        """Whether the CPU's numbers differ from the proved ones by an amount that matters in the
        tested dtype; adds elements that are wrong in float64 to ``wrong``."""
        if before.dtype.kind not in "fc":
            wrong = before != high
        else:
            sign_differs = (
                np.signbit(before) != np.signbit(high)
                if before.dtype.kind == "f"
                else np.zeros(before.shape, dtype=bool)
            )
            is_equal = ((before == high) & ~sign_differs) | ((before != before) & (high != high))
            with np.errstate(invalid="ignore"):  # infinities, which are equal or not
                step = np.spacing(np.maximum(np.abs(high), np.finfo(np.float64).tiny))
                distance = np.abs(before - high)
            gap = np.where(is_equal, 0.0, np.where(before == high, np.inf, distance))
            wrong = ~is_equal & ~(gap <= _OFF * step)
        self.wrong |= {(index, int(p)) for p in places[wrong]}
        if before.dtype.kind not in "fc":
            return bool(wrong.any())
        return bool((~is_equal & ~(gap <= _TELLS * self._spacing(high))).any())

    def _spacing(self, numbers: Any) -> Any:
        name = self.reference.materials.case.dtype
        form = dtypes.FORMATS.get(dtypes.PARTS.get(name, name), dtypes.FORMATS["float64"])
        size = np.nan_to_num(np.abs(numbers), posinf=1e300)
        return dtypes.spacing(size.astype(np.float64), form, np.empty(size.shape))


def spots(digest: str, index: int, size: int, count: int) -> list[int]:
    """Up to ``count`` of ``size`` flat positions: the last one, and others chosen by the case's
    digest, so that they are the same on every machine."""
    if size <= count:
        return list(range(size))
    seed = int.from_bytes(hashlib.sha256(f"{digest}/{index}".encode()).digest()[:8], "big")
    chosen = {size - 1}
    while len(chosen) < count:
        seed = (seed * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        chosen.add((seed >> 16) % size)
    return sorted(chosen)
