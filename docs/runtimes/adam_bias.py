"""The translation of Adam rounds beta2 to float32 before 1 - beta2^step: a step errs by 6e-6."""

import onnxruntime
import torch


def step(gradient: torch.Tensor, mean: torch.Tensor, square: torch.Tensor) -> torch.Tensor:
    leaf = torch.zeros(2).requires_grad_(True)
    optimizer = torch.optim.Adam([leaf], lr=0.125, foreach=False)
    leaf.grad = gradient
    state = {"exp_avg": mean.clone(), "exp_avg_sq": square.clone()}
    optimizer.state[leaf] = {"step": torch.tensor(0.0), **state}
    optimizer.step()
    return leaf.detach()


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, mean: torch.Tensor, square: torch.Tensor) -> torch.Tensor:
        return step(x, mean, square)


x, zero = torch.tensor([0.75, 0.5]), torch.zeros(2)
program = torch.onnx.export(Model(), (x, zero, zero), dynamo=True, verbose=False)
session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
given = {"x": x.numpy(), "mean": zero.numpy(), "square": zero.numpy()}
expected, actual = Model()(x, zero, zero), torch.from_numpy(session.run(None, given)[0])
print("nodes      ", ", ".join(node.op_type for node in program.model_proto.graph.node))
print("torch      ", expected.flatten().tolist())
print("onnxruntime", actual.flatten().tolist())
print("true value  -0.12499999833, -0.1249999975")
assert not torch.allclose(expected, actual, rtol=1e-6, atol=0.0, equal_nan=True), "they agree"
