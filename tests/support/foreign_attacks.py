"""Cases that would harm whoever runs them: each as one line, by what it attacks."""

from __future__ import annotations

import json
from typing import Any


def tensor(*base: int, dtype: str = "float32", **more: Any) -> dict[str, Any]:
    return {"tensor": {"base": list(base), "dtype": dtype, **more}}


def integers(*base: int, low: int = 0, high: int = 9) -> dict[str, Any]:
    return tensor(*base, dtype="int64", values=["integers", low, high])


def case(source: str, *args: Any, dtype: str = "float32", **kwargs: Any) -> str:
    """A case that calls ``aten/…``, ``call/…`` or a declared operator."""
    kind, _, name = source.partition("/")
    operator = f"aten.{name.partition('.')[0]}" if kind == "aten" else name or kind
    body = {"operator": operator, "dtype": dtype, "args": list(args), "kwargs": kwargs}
    return json.dumps(body | ({"source": source} if name else {}))


MANY, HUGE = 1 << 28, 10**9
X = tensor(4)
IMAGE, POOL = tensor(1, 1, 8, 8), [[2, 2], [2, 2], [0, 0], [1, 1], False]

ATTACKS: dict[str, str] = {
    # Memory that is not the tensors'.
    "coo-to-csr": case("aten/_convert_indices_from_coo_to_csr.default", integers(9, low=HUGE,
                       high=2 * HUGE), 4, dtype="int64"),
    "reshape-alias": case("aten/_reshape_alias.default", X, [MANY], [1]),
    "reshape-alias-small": case("aten/_reshape_alias.default", X, [64], [1]),
    "unsafe-index": case("aten/_unsafe_index.Tensor", X, [integers(2, low=HUGE, high=HUGE + 9)]),
    "index-put-unsafe": case("aten/_index_put_impl_.default", X, [integers(2, low=HUGE,
                             high=HUGE + 9)], tensor(2), False, True),
    "pool-positions": case("aten/max_pool2d_with_indices_backward.default", tensor(1, 1, 4, 4),
                           IMAGE, *POOL, integers(1, 1, 4, 4, low=HUGE, high=HUGE + 9)),
    "pool-gradient": case("aten/_adaptive_avg_pool2d_backward.default", tensor(9, 9, 64, 64),
                          IMAGE),
    "layer-norm-rows": case("aten/native_layer_norm_backward.default", tensor(4096, 8),
                            tensor(4096, 8), [8], tensor(1, 1), tensor(1, 1), None, None,
                            [True, True, True]),
    "batch-norm-channels": case("aten/native_batch_norm.default", tensor(2, 4096, 4), tensor(1),
                                tensor(1), tensor(1), tensor(1), True, 0.1, 1e-5),
    "softmax-shapes": case("aten/_log_softmax_backward_data.default", tensor(64, 64), tensor(1), 0,
                           {"dtype": "float32"}),
    "loss-classes": case("aten/nll_loss_backward.default", tensor(), tensor(4, 3),
                         integers(4, low=HUGE, high=HUGE + 9), None, 1, -100, tensor()),
    "embedding-rows": case("aten/embedding_dense_backward.default", tensor(2, 4),
                           integers(2, low=HUGE, high=HUGE + 9), 4, -1, False),
    "fft-size": case("aten/_fft_c2r.default", tensor(4, dtype="complex64"), [0], 0, 1 << 16,
                     dtype="complex64"),
    "pivots": case("call/torch.lu_unpack", tensor(4, 4), tensor(4, dtype="int32",
                   values=["integers", HUGE, HUGE + 9])),
    "segments": case("call/torch.segment_reduce", X, "sum", lengths=integers(1, low=HUGE,
                     high=HUGE + 9)),
    "attention-backward": case("aten/_flash_attention_backward.default", X, X, X, X, X, X, X, X, 1,
                               1, 0.0, False, X, X),
    # Addresses and memory that nobody wrote.
    "data-ptr": case("call/Tensor.data_ptr", X),
    "const-data-ptr": case("call/Tensor.const_data_ptr", X),
    "empty": case("call/torch.empty", [64]),
    "empty-like": case("aten/empty_like.default", X),
    "new-empty": case("call/Tensor.new_empty", X, [64]),
    "storage": case("call/Tensor.untyped_storage", X),
    "set-data": case("aten/set_data.default", X, X),
    "from-file": case("aten/from_file.default", "/etc/passwd", False, 64),
    # Memory.
    "exp": case("exp", tensor(MANY)),
    "as-strided": case("call/Tensor.as_strided", X, [MANY], [0]),
    "expanded": case("exp", {"literal": {"sha256": "df3f619804a92fdb4057192dc43dd748ea778adc52bc49"
                     "8ce80524c014b81119", "dtype": "float32", "bytes": 4, "shape": [MANY],
                     "stride": [0], "offset": 0, "hex": "00000000"}}),
    "ones": case("call/torch.ones", [1 << 33]),
    "arange": case("call/torch.arange", 1 << 40),
    "repeat": case("call/Tensor.repeat", X, [HUGE]),
    "expand": case("call/Tensor.expand", tensor(1), [1 << 40]),
    "pad": case("call/torch.nn.functional.pad", X, [HUGE, 0]),
    "interpolate": case("call/torch.nn.functional.interpolate", tensor(1, 1, 4),
                        scale_factor=1e9),
    "histogram": case("call/torch.histc", X, 1 << 36),
    "combinations": case("call/torch.combinations", tensor(5000), 4),
    "outer": case("call/torch.outer", tensor(1 << 20), tensor(1 << 20)),
    "kron": case("call/torch.kron", tensor(4096, 64), tensor(4096, 64)),
    "one-hot": case("call/torch.nn.functional.one_hot", integers(9), HUGE, dtype="int64"),
    # Work.
    "matmul": case("matmul", tensor(2800, 2800), tensor(2800, 2800)),
    "convolution": case("nn.functional.conv2d", tensor(1, 64, 200, 200), tensor(256, 64, 31, 31)),
    # Python.
    "pow": case("call/operator.pow", 3, HUGE),
    "shift": case("call/operator.lshift", 1, 1 << 36),
    "repeat-list": case("call/operator.mul", [1], HUGE),
    "repeat-text": case("call/operator.mul", "a", HUGE),
    "format": case("call/operator.mod", "%999999999d", 1),
    "format-tensor": case("call/operator.mod", "%999999999d", integers()),
    "list-times-tensor": case("call/operator.mul", [1], integers(low=HUGE, high=HUGE + 9)),
    "long-text": case("call/torch.einsum", "a" * (1 << 20), X),
    "long-integer": case("call/torch.add", X, 10**4000),
    "longest-integer": f'{{"operator":"add","dtype":"float32","args":[{"9" * 100_000}]}}',
    "deep": '{"operator":"add","dtype":"float32","args":' + "[" * 50_000 + "]" * 50_000 + "}",
    "nested": case("call/torch.cat", json.loads("[" * 30 + "]" * 30)),
    "class": case("call/Tensor.__class__", X),
    "globals": case("call/torch.add.__globals__", X),
    "subclasses": case("call/Tensor.__subclasses__", X),
    "reduce": case("call/Tensor.__reduce_ex__", X, 2),
    "load": case("call/torch.load", "/etc/passwd"),
    "system": case("call/os.system", "true"),
    "getattr": case("call/operator.attrgetter", "__class__.__init__.__globals__"),
    "methodcaller": case("call/operator.methodcaller", "__reduce__"),
    "aten-dots": case("aten/__class__.__globals__", X),
    "apply": case("call/Tensor.apply_", X, "print"),
    "hook": case("call/Tensor.register_hook", X, "print"),
}  # fmt: skip

# Nothing but the work itself says what these take: the process is watched.
WATCHED: dict[str, str] = {
    "split": case("call/torch.split", tensor(1 << 20), 1),
    "bincount": case("call/torch.bincount", integers(4, low=HUGE, high=HUGE + 9), dtype="int64"),
}
