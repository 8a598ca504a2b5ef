"""OpenVINO divides the last windows of ceil_mode by the whole kernel; torch by what lies inside."""

import openvino
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.avg_pool1d(x, 3, stride=2, padding=1, ceil_mode=True)


x = torch.ones(1, 1, 4)
program = torch.onnx.export(Model(), (x,), dynamo=True, verbose=False)
core = openvino.Core()
model = core.read_model(program.model_proto.SerializeToString(), b"")
compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
expected, actual = Model()(x), torch.from_numpy(compiled([x.numpy()])[0].copy())
print("nodes     ", ", ".join(node.op_type for node in program.model_proto.graph.node))
print("torch     ", expected.flatten().tolist())
print("openvino  ", actual.flatten().tolist())
print("true value 2/3, 1, 1/2: the last window has one element and one zero of padding")
assert not torch.allclose(expected, actual, rtol=1e-4, atol=0.0, equal_nan=True), "they agree"
