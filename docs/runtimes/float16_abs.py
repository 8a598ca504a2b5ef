"""The translation computes float16 in float32, and its result stays float32."""

import onnxruntime
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.abs(x)


x = torch.tensor([-1.0, 2.0], dtype=torch.float16)
program = torch.onnx.export(Model(), (x,), dynamo=True, verbose=False)
session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
feed = {item.name: t.numpy() for item, t in zip(session.get_inputs(), (x,), strict=True)}
expected, actual = Model()(x), torch.from_numpy(session.run(None, feed)[0])
print("nodes      ", ", ".join(node.op_type for node in program.model_proto.graph.node))
print("torch      ", expected.dtype)
print("onnxruntime", actual.dtype)
print("true value  torch.float16, the dtype of x")
assert expected.dtype != actual.dtype, "they agree"
