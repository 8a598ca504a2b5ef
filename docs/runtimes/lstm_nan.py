"""ONNX Runtime's LSTM clips NaN: its results are numbers."""

import onnxruntime
import torch


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(1, 1)
        for parameter in self.lstm.parameters():
            torch.nn.init.constant_(parameter, 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(x)[0]


model = Model().requires_grad_(False)
x = torch.tensor([[[1.0]], [[float("nan")]], [[1.0]]])
program = torch.onnx.export(model, (x,), dynamo=True, verbose=False)
session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
expected, actual = model(x), torch.from_numpy(session.run(None, {"x": x.numpy()})[0])
print("nodes      ", ", ".join(node.op_type for node in program.model_proto.graph.node))
print("torch      ", expected.flatten().tolist())
print("onnxruntime", actual.flatten().tolist())
print("true value  a number, nan, nan")
assert not torch.allclose(expected, actual, rtol=1e-4, atol=0.0, equal_nan=True), "they agree"
