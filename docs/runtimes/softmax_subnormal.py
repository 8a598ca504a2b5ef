"""ONNX Runtime's softmax flushes subnormal results to zero."""

import onnxruntime
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, 0)


x = torch.tensor([0.0, -88.0, -95.0])
program = torch.onnx.export(Model(), (x,), dynamo=True, verbose=False)
session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
feed = {item.name: t.numpy() for item, t in zip(session.get_inputs(), (x,), strict=True)}
expected, actual = Model()(x), torch.from_numpy(session.run(None, feed)[0])
print("nodes      ", ", ".join(node.op_type for node in program.model_proto.graph.node))
print("torch      ", expected.flatten().tolist())
print("onnxruntime", actual.flatten().tolist())
print("true value  1 - 6e-39, 6.0546e-39, 5.521e-42")
assert not torch.allclose(expected, actual, rtol=1e-4, atol=0.0), "they agree"
