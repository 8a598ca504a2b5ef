"""OpenVINO's CPU plugin: int64 is computed in int32, int32 in float32, and int8 does not wrap."""

import numpy as np
import openvino
import torch


def both(function, *inputs):
    """The results of torch and of OpenVINO."""

    class Model(torch.nn.Module):
        def forward(self, *arguments):
            return function(*arguments)

    program = torch.onnx.export(Model(), inputs, dynamo=True, verbose=False)
    core = openvino.Core()
    model = core.read_model(program.model_proto.SerializeToString(), b"")
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return function(*inputs).numpy(), compiled([x.numpy() for x in inputs])[0]


long, int_, byte, matrix = (
    torch.tensor([5_000_000_000]),
    torch.tensor([2**25 + 1], dtype=torch.int32),
    torch.tensor([100], dtype=torch.int8),
    torch.tensor([[2**20]], dtype=torch.int32),
)
differing = 0
for words, function, inputs in (
    ("int64: x.abs() of 5e9", torch.abs, (long,)),
    ("int64: x.reshape(1, 1)", lambda x: x.reshape(1, 1), (long,)),
    ("int32: relu(2^25 + 1)", torch.relu, (int_,)),
    ("int32: 2^25 + 1 == 2^25", torch.eq, (int_, int_ - 1)),
    ("int32: max(2^25 + 1)", lambda x: x.amax(0), (int_,)),
    ("int32: 2^20 @ 2^20", torch.matmul, (matrix, matrix.clone())),
    ("int8: 100 + 100", torch.add, (byte, byte.clone())),
    ("int32: -8 >> 1", torch.bitwise_right_shift, (-8 + 0 * int_, 1 + 0 * int_)),
):
    expected, actual = both(function, *inputs)
    same = np.array_equal(expected, actual)
    differing += not same
    print(f"{words:26} torch {expected.ravel()[0]!s:>12}  openvino {actual.ravel()[0]!s:>12}")
assert not differing, f"{differing} differ"
