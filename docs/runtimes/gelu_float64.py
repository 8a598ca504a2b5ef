"""In float64, the constants of ONNX Runtime's Gelu with tanh have float32 precision."""

import onnxruntime
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x, approximate="tanh")


x = torch.tensor([-1.0, 0.5, 2.0], dtype=torch.float64)
program = torch.onnx.export(Model(), (x,), dynamo=True, verbose=False)
session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
expected, actual = Model()(x), torch.from_numpy(session.run(None, {"x": x.numpy()})[0])
print("nodes      ", ", ".join(node.op_type for node in program.model_proto.graph.node))
print("torch      ", expected.flatten().tolist())
print("onnxruntime", actual.flatten().tolist())
print("true value  -0.158808009391723…, 0.345714009825144…, 1.954597694087775…")
assert not torch.allclose(expected, actual, rtol=1e-12, atol=0.0, equal_nan=True), "they agree"
