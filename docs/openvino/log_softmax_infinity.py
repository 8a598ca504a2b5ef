"""OpenVINO's log_softmax of infinity is -infinity; inf - inf is NaN."""

import openvino
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log_softmax(x, 0)


x = torch.tensor([float("inf"), 1.0, 2.0])
program = torch.onnx.export(Model(), (x,), dynamo=True, verbose=False)
core = openvino.Core()
model = core.read_model(program.model_proto.SerializeToString(), b"")
compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
expected, actual = Model()(x), torch.from_numpy(compiled([x.numpy()])[0].copy())
print("nodes     ", ", ".join(node.op_type for node in program.model_proto.graph.node))
print("torch     ", expected.flatten().tolist())
print("openvino  ", actual.flatten().tolist())
print("true value nan, nan, nan")
assert not torch.allclose(expected, actual, rtol=1e-4, atol=0.0, equal_nan=True), "they agree"
