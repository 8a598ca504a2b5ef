"""The rounding envelope: the distances of float64 replicas, in which every number is perturbed by
half an ulp.

The band of a quantity is :data:`FACTOR` × the RMS distance of the replicas from the float64 model.
It grows where the model amplifies rounding, exponentially if it is chaotic; only larger errors are
visible.

Rounding occasionally decides the branch of a ReLU or a maximum, perhaps on a backend but in no
replica. If a quantity leaves the band and no operator is to blame, :data:`FAR_REPLICAS` replicas
with a hundredfold perturbation take a hundred times as many other branches; the band then includes
their largest distance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from .findings import Curve, Layer
from .reference_samples import Distances, Key, ReferenceTrace, joint, norm, sizes

REPLICAS = 6
FACTOR = 10.0
FAR_REPLICAS, FAR_SCALE = 8, 100.0  # replicas and their scale in ½ ulp, to reach other branches
_NEIGHBORS = 4  # steps before and after: all replicas may cross the loss of float64 by chance
_FLOOR = 4 * 2.0**-24  # × the size of a quantity: a copy may be rounded once
_FIELDS = {
    "output": "output", "gradient": "gradient", "parameter gradient": "parameter_gradient",
    "buffer": "buffer",
    "optimizer state": "optimizer_state", "parameter": "parameter",
}  # fmt: skip


class RoundingEnvelope:
    """The bands of all tapped quantities, from the distances of the replicas."""

    def __init__(
        self,
        reference: ReferenceTrace,
        replicas: Sequence[Distances],
        far: Sequence[Distances] = (),
    ) -> None:
        self._reference, self._replicas, self._far = reference, replicas, far

    def with_far(self, far: Sequence[Distances]) -> RoundingEnvelope:
        """The same envelope with the distances of replicas with a larger perturbation."""
        return RoundingEnvelope(self._reference, self._replicas, far)

    def of(self, key: Key) -> float:
        # mostly squares of gradients
        factor = FACTOR**2 if key.kind == "optimizer state" else FACTOR
        band = self._band(
            [replica.by_key.get(key, 0.0) for replica in self._replicas], self._size(key), factor
        )
        return max(
            [band, *(factor / FACTOR * replica.by_key.get(key, 0.0) for replica in self._far)]
        )

    def curve(self, name: str, kind: str, distances: Distances) -> Curve | None:
        """One curve for all quantities of one kind."""
        own_distances = joint(distances.by_key, kind)
        if not own_distances:
            return None
        reference_sizes, replica_distances = (
            dict(sizes(self._reference, kind)),
            [joint(replica.by_key, kind) for replica in self._replicas],
        )
        far = [joint(replica.by_key, kind) for replica in self._far]
        steps = tuple(sorted(own_distances))
        raw = {
            step: self._band(
                [replica.get(step, 0.0) for replica in replica_distances],
                reference_sizes.get(step, 0.0),
            )
            for step in steps
        }
        raw = {
            step: max([band, *(replica.get(step, 0.0) for replica in far)])
            for step, band in raw.items()
        }
        values, reference = (), ()
        if kind == "loss":
            losses = {
                key.step: float(v.reshape(-1)[0])
                for key, v in self._reference.by_key.items()
                if key.kind == "loss" and v.size
            }
            values = tuple(distances.values.get(step, math.nan) for step in steps)  # type: ignore[assignment]
            reference = tuple(losses.get(step, math.nan) for step in steps)  # type: ignore[assignment]
        smoothed = _neighborhood_maximum(raw, steps)
        return Curve(
            name,
            steps,
            tuple(own_distances[s] for s in steps),
            tuple(smoothed[s] for s in steps),
            values,
            reference,
        )

    def ratios(self, distances: Distances) -> dict[Key, float]:
        """Every distance as a multiple of its band, in the order of computation."""
        by_name: dict[tuple[str, str], dict[int, float]] = {}
        for key in self._reference.by_key:
            by_name.setdefault((key.kind, key.name), {})[key.step] = self.of(key)
        smoothed = {
            name: _neighborhood_maximum(found, sorted(found)) for name, found in by_name.items()
        }
        found = {}
        for key in self._reference.by_key:
            if key in distances.by_key:
                found[key] = ratio_to_band(
                    distances.by_key[key], smoothed[key.kind, key.name][key.step]
                )
        return found

    def _size(self, key: Key) -> float:
        return norm(self._reference.by_key[key])

    @staticmethod
    def _band(distances: Sequence[float], size: float, factor: float = FACTOR) -> float:
        finite = [value for value in distances if value < math.inf]
        if len(finite) < len(distances):
            return math.inf  # rounding alone gives infinities
        mean = sum(value * value for value in finite) / max(len(finite), 1)
        return factor * math.sqrt(mean) + _FLOOR * size


def ratio_to_band(distance: float, band: float) -> float:
    """A distance as a multiple of its band; if the band is 0, any distance is infinite."""
    return distance / band if band > 0.0 else math.inf if distance > 0.0 else 0.0


def _neighborhood_maximum(by_step: Mapping[int, float], steps: Sequence[int]) -> dict[int, float]:
    """The maximum over neighboring steps."""
    values = [by_step[step] for step in steps]
    return {
        step: max(values[max(0, i - _NEIGHBORS) : i + _NEIGHBORS + 1])
        for i, step in enumerate(steps)
    }


def layers(ratios: Mapping[Key, float]) -> tuple[Layer, ...]:
    """One row per layer or parameter, in the order of computation."""
    rows: dict[str, dict[str, float]] = {}
    first: dict[str, int] = {}
    by_step: dict[str, dict[int, float]] = {}
    for key, value in ratios.items():
        if key.kind not in _FIELDS:
            continue
        # the parameter's
        name = key.name.rpartition(" ")[0] if key.kind == "optimizer state" else key.name
        row = rows.setdefault(name, {})
        row[_FIELDS[key.kind]] = max(row.get(_FIELDS[key.kind], 0.0), value)
        steps = by_step.setdefault(name, {})
        steps[key.step] = max(steps.get(key.step, 0.0), value)
        if value > 1.0:
            first[name] = min(first.get(name, key.step), key.step)
    return tuple(
        Layer(name, **row, first=first.get(name, 0), by_step=tuple(sorted(by_step[name].items())))
        for name, row in rows.items()
    )


def first_outside(ratios: Mapping[Key, float]) -> Key | None:
    """The first quantity outside its band, by step and then in the order of computation."""
    return next(
        (
            key
            for key, value in sorted(ratios.items(), key=lambda item: item[0].step)
            if value > 1.0
        ),
        None,
    )
