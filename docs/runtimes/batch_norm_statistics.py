"""The translation leaves the running statistics of training as they were."""

import onnxruntime
import torch


def normalized_mean(x: torch.Tensor) -> torch.Tensor:
    mean, variance = torch.zeros(1), torch.ones(1)
    torch.nn.functional.batch_norm(x, mean, variance, training=True)
    return mean + 0 * x[:1, 0]


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return normalized_mean(x)


x = torch.tensor([[1.0], [3.0]])
program = torch.onnx.export(Model(), (x,), dynamo=True, verbose=False)
session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
expected, actual = Model()(x), torch.from_numpy(session.run(None, {"x": x.numpy()})[0])
print("nodes      ", ", ".join(node.op_type for node in program.model_proto.graph.node))
print("torch      ", expected.flatten().tolist())
print("onnxruntime", actual.flatten().tolist())
print("true value  0.2, a tenth of the mean of 1 and 3")
assert not torch.allclose(expected, actual, rtol=1e-4, atol=0.0, equal_nan=True), "they agree"
