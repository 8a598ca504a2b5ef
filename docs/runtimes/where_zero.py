"""ONNX Runtime's Where loses the sign of zero of its first choice."""

import onnxruntime
import torch


class Model(torch.nn.Module):
    def forward(self, c: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.where(c, x, y)


c = torch.tensor([True, False])
x, y = torch.tensor([-0.0, 1.0]), torch.tensor([2.0, -0.0])
program = torch.onnx.export(
    Model(),
    (
        c,
        x,
        y,
    ),
    dynamo=True,
    verbose=False,
)
session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
feed = {
    item.name: t.numpy()
    for item, t in zip(
        session.get_inputs(),
        (
            c,
            x,
            y,
        ),
        strict=True,
    )
}
expected, actual = Model()(c, x, y), torch.from_numpy(session.run(None, feed)[0])
print("nodes      ", ", ".join(node.op_type for node in program.model_proto.graph.node))
print("torch      ", expected.flatten().tolist())
print("onnxruntime", actual.flatten().tolist())
print("true value  -0, -0")
assert not torch.equal(torch.signbit(expected), torch.signbit(actual)), "they agree"
