"""OpenVINO's CPU plugin (AVX2) rounds every result in bfloat16 up only where the last bit that is
kept is 1: a product errs by up to one ulp in place of a half."""

import numpy as np
import openvino
import torch


class Product(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y


torch.manual_seed(0)
x, y = torch.randn(2, 4096).to(torch.bfloat16)
program = torch.onnx.export(Product(), (x, y), dynamo=True, verbose=False)
core = openvino.Core()
model = core.read_model(program.model_proto.SerializeToString(), b"")
compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
request = compiled.create_infer_request()
request.infer(
    [
        openvino.Tensor(t.view(torch.int16).numpy().view(np.uint16), [4096], openvino.Type.bf16)
        for t in (x, y)
    ]
)
result = np.frombuffer(request.get_output_tensor(0).data.tobytes(), np.int16)
actual = torch.from_numpy(result.copy())
expected = (x * y).view(torch.int16)
bits = (x.float() * y.float()).view(torch.int32)  # the product is exact in float32
formula = ((bits + ((bits & 0x10000) >> 1)) >> 16).to(torch.int16)
first = int((expected != actual).nonzero()[0])
print("nodes     ", ", ".join(node.op_type for node in program.model_proto.graph.node))
print(
    "torch     ",
    expected[first].view(torch.bfloat16).item(),
    "for",
    bits[first].view(torch.float32).item(),
)
print("openvino  ", actual[first].view(torch.bfloat16).item())
print(int((expected != actual).sum()), "of 4096 differ;", end=" ")
print(int((formula == actual).sum()), "are (bits + (bits & 0x10000) / 2) >> 16")
assert not torch.equal(expected, actual), "they agree"
