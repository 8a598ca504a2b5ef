"""deg2rad of float64 is translated with pi / 180 rounded to float32: eight digits are left."""

import onnxruntime
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.deg2rad(x)


x = torch.tensor([180.0, 1.0], dtype=torch.float64)
program = torch.onnx.export(Model(), (x,), dynamo=True, verbose=False)
session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
expected, actual = Model()(x), torch.from_numpy(session.run(None, {"x": x.numpy()})[0])
print("nodes      ", ", ".join(node.op_type for node in program.model_proto.graph.node))
print("torch      ", expected.tolist())
print("onnxruntime", actual.tolist())
print("true value  3.14159265358979, 0.0174532925199433")
assert not torch.allclose(expected, actual, rtol=1e-12, atol=0.0, equal_nan=True), "they agree"
