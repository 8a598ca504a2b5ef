"""ONNX Runtime's product of integers saturates; torch's wraps around."""

import onnxruntime
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.prod(x)


x = torch.full((70,), 3)
program = torch.onnx.export(Model(), (x,), dynamo=True, verbose=False)
session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
feed = {item.name: t.numpy() for item, t in zip(session.get_inputs(), (x,), strict=True)}
expected, actual = Model()(x), torch.from_numpy(session.run(None, feed)[0])
print("nodes      ", ", ".join(node.op_type for node in program.model_proto.graph.node))
print("torch      ", expected.item())
print("onnxruntime", actual.item())
wrapped = (3**70 + 2**63) % 2**64 - 2**63
print("true value ", wrapped, "3^70 modulo 2^64")
assert expected.item() == wrapped != actual.item(), "they agree"
