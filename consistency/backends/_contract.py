"""What a call does beside its numbers: observed around the call, where its tensors are.

Only attributes of tensors are read, no number: a few microseconds per call.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ..core.contract import MAX_RANK, NONE, Contract, Returned
from ..core.trees import flatten
from ..generate.materialize import Materials
from ..operators.declare import Operator


class ContractObserver:
    """Observes one call: :meth:`begin` before it, :meth:`returned` after it, :meth:`contract` when
    everything, gradients included, was computed.

    ``contract`` is None where torch does not say: tensors without a storage or version counter.
    """

    def __init__(self) -> None:
        self._tensors: Sequence[torch.Tensor] = ()
        self._versions: list[int] | None = None
        self._returned: tuple[Returned | None, ...] | None = None

    def begin(self, tensors: Sequence[torch.Tensor]) -> None:
        """The tensors that the call receives, in materializing order."""
        self._tensors = tensors
        try:
            self._versions = [tensor._version for tensor in tensors]
        except Exception:  # tensors of inference mode have no version counter
            self._versions = None

    def returned(self, result: Iterable[Any]) -> None:
        """The values that the call returned."""
        try:
            self._returned = self._observed(result)
        except Exception:  # a layout without strides, a device without storages
            self._returned = None

    def contract(self) -> Contract | None:
        """Everything observed; None if some of it could not be."""
        if self._versions is None or self._returned is None:
            return None
        pairs = zip(self._tensors, self._versions, strict=True)
        try:
            written = [i for i, (tensor, before) in enumerate(pairs) if tensor._version != before]
        except Exception:
            return None
        return Contract(self._returned, tuple(written))

    def _observed(self, result: Iterable[Any]) -> tuple[Returned | None, ...]:
        identities = {id(tensor): i for i, tensor in enumerate(self._tensors)}
        storages = {t.untyped_storage()._cdata: i for i, t in enumerate(self._tensors)}
        siblings: dict[int, int] = {}
        rows: list[Returned | None] = []
        for position, item in enumerate(result):
            # Other subclasses may override every attribute.
            if type(item) not in (torch.Tensor, torch.nn.Parameter) or item.ndim > MAX_RANK:
                rows.append(None)
                continue
            storage = item.untyped_storage()._cdata
            tracks = item.requires_grad
            rows.append(
                Returned(
                    identities.get(id(item), NONE),
                    storages.get(storage, NONE),
                    siblings.setdefault(storage, position),
                    item.storage_offset(),
                    _significant_strides(item),
                    tracks,
                    tracks and item.grad_fn is None,
                )
            )
        return tuple(rows)


def _significant_strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """The strides, −1 where they mean nothing: along dimensions of one element, and of a tensor
    without elements."""
    strides = tensor.stride()
    if 1 not in tensor.shape and 0 not in tensor.shape:
        return strides
    if 0 in tensor.shape:
        return (NONE,) * len(strides)
    return tuple(
        [NONE if size == 1 else stride for size, stride in zip(tensor.shape, strides, strict=True)]
    )


def observed_call(operator: Operator, materials: Materials, device: str) -> Contract | None:
    """The contract of a forward call on ``device``, such as ``meta``, where nothing is computed;
    None if it raises there."""
    observer = ContractObserver()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            arguments = materials.build(device=device)
            observer.begin(arguments.tensors)
            observer.returned(list(flatten(operator(*arguments.args, **arguments.kwargs))))
        except Exception:  # no shape function, or one that needs numbers
            return None
    return observer.contract()


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements lie without gaps and without overlap, in any order of dimensions."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size == 1:
            continue
        if stride != expected:
            return tensor.numel() == 0
        expected *= size
    return True
