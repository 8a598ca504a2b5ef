"""OpenVINO's cast to bfloat16 (AVX2) rounds up only where the last bit that is kept is 1."""

import numpy as np
import openvino
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.bfloat16)


x = torch.randn(4096, generator=torch.Generator().manual_seed(0))
program = torch.onnx.export(Model(), (x,), dynamo=True, verbose=False)
core = openvino.Core()
model = core.read_model(program.model_proto.SerializeToString(), b"")
compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
expected = Model()(x).view(torch.int16)
actual = torch.from_numpy(compiled([x.numpy()])[0].view(np.int16).copy())
bits = x.view(torch.int32)
formula = ((bits + ((bits & 0x10000) >> 1)) >> 16).to(torch.int16)
first = int((expected != actual).nonzero()[0])
print("nodes     ", ", ".join(node.op_type for node in program.model_proto.graph.node))
print("torch     ", expected[first].view(torch.bfloat16).item(), "for", x[first].item())
print("openvino  ", actual[first].view(torch.bfloat16).item())
print(int((expected != actual).sum()), "of 4096 differ;", end=" ")
print(int((formula == actual).sum()), "are (bits + (bits & 0x10000) / 2) >> 16")
assert not torch.equal(expected, actual), "they agree"
