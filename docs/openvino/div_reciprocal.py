"""OpenVINO's x / y is x * (1 / y), rounded twice: one of four quotients is not the nearest."""

import numpy as np
import openvino
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x / y


generator = torch.Generator().manual_seed(0)
x, y = (torch.rand(4096, generator=generator) + 0.1 for _ in range(2))
program = torch.onnx.export(Model(), (x, y), dynamo=True, verbose=False)
core = openvino.Core()
model = core.read_model(program.model_proto.SerializeToString(), b"")
compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
expected, actual = Model()(x, y), torch.from_numpy(np.array(compiled([x.numpy(), y.numpy()])[0]))
print("nodes     ", ", ".join(node.op_type for node in program.model_proto.graph.node))
print(int((expected != actual).sum()), "of 4096 differ;", end=" ")
print(int((actual == x * (1 / y)).sum()), "are x * (1 / y) bit for bit")
assert not torch.equal(expected, actual), "they agree"
