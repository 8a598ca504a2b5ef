"""isinf of float64 is translated through a cast to float32, in which 1e300 is infinite."""

import onnxruntime
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.isinf(x)


x = torch.tensor([1e300, 1.0], dtype=torch.float64)
program = torch.onnx.export(Model(), (x,), dynamo=True, verbose=False)
session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
expected, actual = Model()(x), torch.from_numpy(session.run(None, {"x": x.numpy()})[0])
print("nodes      ", ", ".join(node.op_type for node in program.model_proto.graph.node))
print("torch      ", expected.tolist())
print("onnxruntime", actual.tolist())
print("true value  False, False")
assert not torch.equal(expected, actual), "they agree"
