"""The exporter's optimizer takes constants up to 1e-8 for 0: log(x + 1e-9) becomes log(x)."""

import onnxruntime
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(x + 1e-9)


x = torch.tensor([0.0, 1e-9, 1.0])
program = torch.onnx.export(Model(), (x,), dynamo=True, verbose=False)
session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
expected, actual = Model()(x), torch.from_numpy(session.run(None, {"x": x.numpy()})[0])
print("nodes      ", ", ".join(node.op_type for node in program.model_proto.graph.node))
print("torch      ", expected.tolist())
print("onnxruntime", actual.tolist())
print("true value  -20.723, -20.030, 1e-9")
assert not torch.allclose(expected, actual, rtol=1e-4, atol=1e-6), "they agree"
