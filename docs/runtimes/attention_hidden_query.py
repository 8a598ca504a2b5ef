"""A query that sees nothing gets the mean of the values: the translation masks with -3.4e38, not
with -infinity."""

import onnxruntime
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)


x = torch.tensor([[[[1.0], [2.0], [6.0]]]])
mask = torch.tensor([[True, False, False], [False, False, False], [False, False, True]])
program = torch.onnx.export(Model(), (x, mask), dynamo=True, verbose=False)
session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
given = {"x": x.numpy(), "mask": mask.numpy()}
expected, actual = Model()(x, mask), torch.from_numpy(session.run(None, given)[0])
print("nodes      ", ", ".join(node.op_type for node in program.model_proto.graph.node))
print("torch      ", expected.flatten().tolist())
print("onnxruntime", actual.flatten().tolist())
print("true value  1, 0 (it sees no value), 6")
assert not torch.allclose(expected, actual, rtol=1e-4, atol=0.0, equal_nan=True), "they agree"
