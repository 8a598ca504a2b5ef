"""Tensors in a folder of safetensors files: written per outcome, merged into shards, read one at a
time."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from ...core.files import is_temporary, write_bytes
from ...core.folders import remove_files, subfolder
from ...core.reading import read_bytes
from ...core.regular_files import regular
from ...errors import BundleError

FOLDER = "tensors"
SHARD_BYTES = 64 << 20  # exceeded only by the tensors of a single outcome
MOST_PENDING = 256  # files of single outcomes before they are merged
MAX_FILE_BYTES = 1 << 34
MAX_PENDING_BYTES = 1 << 32  # of the tensors of a single outcome
MAX_FILES = 1 << 16
_KINDS = ("shard", "pending")
_NAME = re.compile(r"(?:shard|pending)-[0-9]{6}\.safetensors")
# Dtypes that safetensors supports, by its names. Others are stored as bytes, and the outcome's line
# names the dtype.
PLAIN = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip


def packed(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in a form for safetensors: contiguous; of an unsupported dtype, its bytes along a
    new last dimension."""
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if tensor.dtype in PLAIN:
        return tensor.clone() if tensor.untyped_storage().nbytes() != tensor.nbytes else tensor
    return tensor.reshape(-1).view(torch.uint8).reshape(*tensor.shape, tensor.element_size())


def unpacked(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The inverse of :func:`packed`. Raises ValueError if the data cannot be of ``dtype``."""
    if dtype in PLAIN:
        if tensor.dtype != dtype:
            raise ValueError(f"it is stored as {tensor.dtype}, not as {dtype}")
        return tensor
    size = torch.empty(0, dtype=dtype).element_size()
    if tensor.dtype != torch.uint8 or tensor.ndim == 0 or tensor.shape[-1] != size:
        raise ValueError(f"it is stored as {tensor.dtype}, which cannot be {dtype}")
    return tensor.reshape(-1).view(dtype).reshape(tensor.shape[:-1])


class TensorWriter:
    """Writes each outcome's tensors to their own file, and later merges these files into
    shards."""

    def __init__(self, folder: Path, wanted: frozenset[str]) -> None:
        """``wanted`` are the keys of existing outcomes; files of an outcome that was never written
        are removed."""
        self._folder = subfolder(folder, FOLDER)
        self._pending: dict[Path, dict[str, torch.Tensor]] = {}
        present = [path.name for path in self._folder.iterdir()]
        names = sorted(name for name in present if _NAME.fullmatch(name))
        self._next = {
            kind: 1 + max((int(n[-18:-12]) for n in names if n.startswith(kind)), default=-1)
            for kind in _KINDS
        }
        remove_files(self._folder, [name for name in present if is_temporary(name)])
        for name in (n for n in names if n.startswith("pending-")):
            tensors = _load(self._folder / name)
            if tensors.keys() <= wanted:
                self._pending[self._folder / name] = tensors
            else:
                (self._folder / name).unlink()

    def add(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Write the tensors of one outcome; its line may be written afterwards."""
        if not tensors:
            return
        packed_tensors = {key: packed(tensor) for key, tensor in tensors.items()}
        self._pending[_save(self._path("pending"), packed_tensors)] = packed_tensors
        if len(self._pending) >= MOST_PENDING or self._bytes() >= SHARD_BYTES:
            self.gather()

    def gather(self) -> None:
        """Merge the files of single outcomes into shards. A kill may leave duplicates, but loses
        nothing."""
        shard: dict[str, torch.Tensor] = {}
        for tensors in self._pending.values():
            if shard and _nbytes(shard) + _nbytes(tensors) > SHARD_BYTES:
                _save(self._path("shard"), shard)
                shard = {}
            shard |= tensors
        if shard:
            _save(self._path("shard"), shard)
        for path in self._pending:
            path.unlink()
        self._pending.clear()

    def _bytes(self) -> int:
        return sum(_nbytes(tensors) for tensors in self._pending.values())

    def _path(self, kind: str) -> Path:
        number = self._next[kind]
        self._next[kind] = number + 1
        return self._folder / f"{kind}-{number:06d}.safetensors"


class TensorReader:
    """Tensors by key, read on access. Raises BundleError for invalid files."""

    def __init__(self, folder: Path) -> None:
        self._where: dict[str, Path] = {}
        self._open: dict[Path, Any] = {}
        self._stack = contextlib.ExitStack()
        found = (p for p in (folder / FOLDER).glob("*.safetensors") if _NAME.fullmatch(p.name))
        paths = list(itertools.islice(found, MAX_FILES + 1))
        if len(paths) > MAX_FILES:
            raise BundleError(
                f"{folder / FOLDER} holds more than {MAX_FILES} files of tensors, which no "
                "recording does"
            )
        for path in sorted(paths, reverse=True):  # shards are complete: they win
            with _read_errors_as_bundle_errors(path):
                if regular(path, folder).stat().st_size > MAX_FILE_BYTES:
                    raise BundleError(
                        f"{path} is larger than a file of a recording may be ({MAX_FILE_BYTES} "
                        f"bytes)"
                    )
                for key in self._handle(path).keys():  # noqa: SIM118 - a handle is no dictionary
                    self._where.setdefault(key, path)

    def __contains__(self, key: str) -> bool:
        return key in self._where

    def get(self, key: str, dtype: torch.dtype) -> torch.Tensor:
        """The tensor ``key``. Raises BundleError if it is missing or of another dtype."""
        path = self._where.get(key)
        if path is None:
            raise BundleError(f"no file of the recording holds the tensor {key!r:.120}")
        with _read_errors_as_bundle_errors(path):
            return unpacked(self._handle(path).get_tensor(key), dtype)

    def shape(self, key: str) -> tuple[int, ...]:
        """The stored shape, without reading the tensor."""
        path = self._where[key]
        with _read_errors_as_bundle_errors(path):
            return tuple(self._handle(path).get_slice(key).get_shape())

    def close(self) -> None:
        self._stack.close()
        self._open.clear()

    def _handle(self, path: Path) -> Any:
        from safetensors import safe_open

        if path not in self._open:
            self._open[path] = self._stack.enter_context(safe_open(path, framework="pt"))
        return self._open[path]


@contextlib.contextmanager
def _read_errors_as_bundle_errors(path: Path) -> Iterator[None]:
    from safetensors import SafetensorError

    try:
        yield
    except BundleError:
        raise
    except (SafetensorError, OSError, ValueError, RuntimeError, OverflowError) as error:
        raise BundleError(f"{path} cannot be read: {str(error).splitlines()[0][:160]}") from None


def _load(path: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load

    with _read_errors_as_bundle_errors(path):
        # Windows could not remove a memory-mapped file.
        return load(read_bytes(path, MAX_PENDING_BYTES, path.parent.parent))


def _save(path: Path, tensors: dict[str, torch.Tensor]) -> Path:
    """Write a file atomically. Tensors that share storage are copied, since safetensors refuses
    them."""
    from safetensors.torch import save

    write_bytes(path, save(_without_shared_storage(tensors)))
    return path


def _without_shared_storage(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    addresses: set[int] = set()
    unshared = {}
    for key, tensor in tensors.items():
        address = tensor.data_ptr()
        unshared[key] = tensor.clone() if address in addresses else tensor
        addresses.add(address)
    return unshared


def _nbytes(tensors: Mapping[str, torch.Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors.values())
