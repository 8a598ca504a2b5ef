"""The tensors of an imported folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ...core import dtypes
from ...core.regular_files import regular
from ...errors import BundleError

MAX_BYTES = 1 << 34


class Tensors:
    """tensors.safetensors, read by key."""

    def __init__(self, path: Path) -> None:
        from safetensors import SafetensorError, safe_open

        self._path = path
        try:
            if regular(path).stat().st_size > MAX_BYTES:
                raise BundleError(f"{path} is larger than {MAX_BYTES} bytes")
            self._handle: Any = safe_open(path, framework="pt")
            self._keys = frozenset(self._handle.keys())  # type: ignore[no-untyped-call]
        except (OSError, SafetensorError) as error:
            raise BundleError(
                f"{path} cannot be read: {str(error).splitlines()[0][:120]}"
            ) from None

    def __enter__(self) -> Tensors:
        self._handle.__enter__()
        return self

    def __exit__(self, *args: Any) -> None:
        self._handle.__exit__(*args)

    def get(self, said: Mapping[str, Any], *, whole: bool = True) -> torch.Tensor:
        """The tensor of a manifest entry, whose dtype is checked, and also its shape if the entry
        describes the ``whole`` tensor."""
        key = said["key"]
        if key not in self._keys:
            raise BundleError(f"{self._path.name} has no tensor {str(key)[:120]!r}")
        tensor: torch.Tensor = self._handle.get_tensor(key)
        name = dtypes.name_of(tensor.dtype)
        if name != said["dtype"] or (whole and list(tensor.shape) != said["shape"]):
            told = f"{said['dtype']} {said['shape']}"
            raise BundleError(
                f"the tensor {str(key)[:120]!r} is {name} {list(tensor.shape)}, the manifest "
                f"says {told}"
            )
        return tensor
