"""The translation of a reduction over everything forgets keepdim."""

import onnxruntime
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.argmax(x, keepdim=True)


x = torch.tensor([[1.0, 3.0], [2.0, 0.0]])
program = torch.onnx.export(Model(), (x,), dynamo=True, verbose=False)
session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
feed = {item.name: t.numpy() for item, t in zip(session.get_inputs(), (x,), strict=True)}
expected, actual = Model()(x), torch.from_numpy(session.run(None, feed)[0])
print("nodes      ", ", ".join(node.op_type for node in program.model_proto.graph.node))
print("torch      ", list(expected.shape))
print("onnxruntime", list(actual.shape))
print("true value  [1, 1], as many dimensions as x has")
assert expected.shape != actual.shape, "they agree"
