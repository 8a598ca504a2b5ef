"""The translation reads a transposed tensor in the order of its elements, not of its memory."""

import onnxruntime
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_strided(x.t(), (2, 2), (2, 1)) * 1


x = torch.arange(4.0).reshape(2, 2)
program = torch.onnx.export(Model(), (x,), dynamo=True, verbose=False)
session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
feed = {item.name: t.numpy() for item, t in zip(session.get_inputs(), (x,), strict=True)}
expected, actual = Model()(x), torch.from_numpy(session.run(None, feed)[0])
print("nodes      ", ", ".join(node.op_type for node in program.model_proto.graph.node))
print("torch      ", expected.flatten().tolist())
print("onnxruntime", actual.flatten().tolist())
print("true value  0, 1, 2, 3, the memory of x")
assert not torch.equal(expected, actual), "they agree"
