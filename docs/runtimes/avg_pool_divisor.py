"""The translation drops divisor_override: ONNX's AveragePool has no such attribute."""

import onnxruntime
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.avg_pool2d(x, 2, divisor_override=1)


x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
program = torch.onnx.export(Model(), (x,), dynamo=True, verbose=False)
session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
expected, actual = Model()(x), torch.from_numpy(session.run(None, {"x": x.numpy()})[0])
print("nodes      ", ", ".join(node.op_type for node in program.model_proto.graph.node))
print("torch      ", expected.flatten().tolist())
print("onnxruntime", actual.flatten().tolist())
print("true value  10, the sum divided by 1")
assert not torch.allclose(expected, actual, rtol=1e-4, atol=0.0, equal_nan=True), "they agree"
