"""The translation drops label_smoothing: SoftmaxCrossEntropyLoss has no such attribute."""

import onnxruntime
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(x, torch.tensor([0]), label_smoothing=0.5)


x = torch.tensor([[1.0, 2.0, 4.0]])
program = torch.onnx.export(Model(), (x,), dynamo=True, verbose=False)
session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
expected, actual = Model()(x), torch.from_numpy(session.run(None, {"x": x.numpy()})[0])
print("nodes      ", ", ".join(node.op_type for node in program.model_proto.graph.node))
print("torch      ", expected.flatten().tolist())
print("onnxruntime", actual.flatten().tolist())
print("true value  log(e + e² + e⁴) - (4·1 + 1·2 + 1·4) / 6 = 2.503179…")
assert not torch.allclose(expected, actual, rtol=1e-4, atol=0.0, equal_nan=True), "they agree"
