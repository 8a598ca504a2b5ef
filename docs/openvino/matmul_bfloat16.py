"""With bfloat16 instructions a CPU multiplies in bfloat16 by default; here it is told to."""

import openvino
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ x


x = torch.tensor([[1.001, 1.001], [1.001, 1.001]])
program = torch.onnx.export(Model(), (x,), dynamo=True, verbose=False)
core = openvino.Core()
model = core.read_model(program.model_proto.SerializeToString(), b"")
compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "bf16"})
expected, actual = Model()(x), torch.from_numpy(compiled([x.numpy()])[0].copy())
print("nodes     ", ", ".join(node.op_type for node in program.model_proto.graph.node))
print("torch     ", expected.flatten().tolist())
print("openvino  ", actual.flatten().tolist())
print("true value 2.004002")
assert not torch.allclose(expected, actual, rtol=1e-4, atol=0.0, equal_nan=True), "they agree"
