"""ONNX Runtime adds int64 in float64: odd numbers beyond 2^53 are lost."""

import onnxruntime
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sum(x)


x = torch.tensor([2**53 + 1, 0])
program = torch.onnx.export(Model(), (x,), dynamo=True, verbose=False)
session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
feed = {item.name: t.numpy() for item, t in zip(session.get_inputs(), (x,), strict=True)}
expected, actual = Model()(x), torch.from_numpy(session.run(None, feed)[0])
print("nodes      ", ", ".join(node.op_type for node in program.model_proto.graph.node))
print("torch      ", expected.item())
print("onnxruntime", actual.item())
print("true value ", 2**53 + 1)
assert expected.item() == 2**53 + 1 != actual.item(), "they agree"
