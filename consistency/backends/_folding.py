"""Large outputs, folded on their device: the repetitions of a tiled case that differ, each with the
rest at the end.

All repetitions of a healthy result are (nearly) equal. They are compared bit by bit, in blocks;
what is kept are the first one, others that differ from it, and their extremes element by element.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..core.model import Output
from ..core.tiling import Tiling, bit_patterns, differing, split
from ..generate.materialize import Arguments

KEPT = 6  # repetitions that differ, from the first on
POSITIONS = "at/"
SPREAD = -1  # in place of the position of a repetition: extremes of all that differ


def folded(
    outputs: Sequence[Output], tiling: Tiling, arguments: Arguments, backward: bool
) -> tuple[Output, ...]:
    """Each output followed by the positions of its kept repetitions (``at/…``).

    A folded output has the kept repetitions along a new first dimension, each with the rest of the
    last, incomplete one. What does not repeat as the tiling says stays as it is, and has no
    positions.
    """
    leaves = arguments.leaves
    result: list[Output] = []
    for place, output in enumerate(outputs):
        dim = _dim(output, place, tiling, leaves if backward else None)
        kept = None if dim is None or output.tensor is None else _fold(output.tensor, dim, tiling)
        if kept is None:
            result.append(output)
            continue
        rows, positions = kept
        result += [
            Output(output.name, rows, output.dtype, output.device, output.value),
            Output(f"{POSITIONS}{output.name}", positions, "int64", "cpu"),
        ]
    return tuple(result)


def _dim(output: Output, place: int, tiling: Tiling, leaves: Sequence[int] | None) -> int | None:
    """The dimension along which an output repeats; ``leaves``: the tensors of gradients."""
    if leaves is not None:
        return tiling.dims[leaves[place]] if place < len(leaves) else None
    if output.name.startswith("out/"):
        return tiling.outs[place] if place < len(tiling.outs) else None
    position = int(output.name.partition("/")[2])
    # The storage of a written argument is flat, and repeats if its first dimension does.
    return 0 if tiling.dims[position] is not None else None


def _fold(
    tensor: torch.Tensor, dim: int, tiling: Tiling
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The kept repetitions and their positions; None if the size along ``dim`` is another one."""
    if dim >= tensor.ndim or tensor.layout != torch.strided or tensor.shape[dim] % tiling.size:
        return None
    tensor = tensor.detach().resolve_conj().resolve_neg()
    period = tensor.shape[dim] // tiling.size * tiling.period
    if not tensor.numel():
        least = tensor.narrow(dim, 0, tensor.shape[dim] // tiling.size * tiling.least)
        return least.unsqueeze(0), torch.tensor([0])
    body, tail = split(tensor, dim, period)
    rows, positions = _distinct(body)
    return torch.stack([torch.cat((row, tail), dim) for row in rows]), torch.tensor(positions)


def _distinct(body: torch.Tensor) -> tuple[list[torch.Tensor], list[int]]:
    """The first repetition, the next that differ, the last that does, and extremes of all that
    do."""
    others: list[int] = []
    low: torch.Tensor | None = None
    high: torch.Tensor | None = None
    first = bit_patterns(body[0])
    ordered = not body.is_complex()
    for start, block in differing(body, first):
        unequal = (bit_patterns(block) != first).flatten(1).any(1)
        where = torch.nonzero(unequal).flatten()
        others += [start + int(i) for i in where.cpu()]
        if ordered:
            some = block[where]
            some = some.to(torch.uint8) if some.dtype == torch.bool else some
            least, most = some.amin(0), some.amax(0)
            low = least if low is None else torch.minimum(low, least)
            high = most if high is None else torch.maximum(high, most)
    chosen = [0, *dict.fromkeys((*others[:KEPT], *others[-1:]))]
    rows = [body[i] for i in chosen]
    if len(others) > KEPT + 1 and low is not None and high is not None:
        rows += [low.to(body.dtype), high.to(body.dtype)]
        chosen += [SPREAD, SPREAD]
    return rows, chosen


def unfolded(outputs: Sequence[Output]) -> list[tuple[int, tuple[Output, ...]]]:
    """The kept repetitions of all outputs, each with its position, as outputs of the small case."""
    pairs: list[tuple[Output, list[int]]] = []
    for output in outputs:
        if output.name.startswith(POSITIONS) and pairs and output.tensor is not None:
            pairs[-1] = (pairs[-1][0], [int(i) for i in output.tensor.tolist()])
        else:
            pairs.append((output, []))
    result = []
    for row in range(max((len(positions) for _, positions in pairs), default=0) or 1):
        here, at = [], 0
        for output, positions in pairs:
            tensor = output.tensor
            if positions and tensor is not None:
                i = row if row < len(positions) else 0
                at = max(at, positions[i]) if positions[i] >= 0 else SPREAD
                tensor = tensor[i]
            here.append(Output(output.name, tensor, output.dtype, output.device, output.value))
        result.append((at, tuple(here)))
    return result
