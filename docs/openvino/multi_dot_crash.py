"""OpenVINO's compiler ends the process (SIGSEGV) for a row times a matrix times a column."""

import subprocess
import sys

PROGRAM = """
import openvino, torch

class Model(torch.nn.Module):
    def forward(self, a, b, c):
        return torch.linalg.multi_dot([a, b, c])

x = torch.arange(9.0), torch.ones(9, 3), torch.ones(3)
print("torch     ", Model()(*x).item())
program = torch.onnx.export(Model(), x, dynamo=True, verbose=False)
print("nodes     ", ", ".join(node.op_type for node in program.model_proto.graph.node), flush=True)
core = openvino.Core()
model = core.read_model(program.model_proto.SerializeToString(), b"")
compiled = core.compile_model(model, "CPU")
print("openvino  ", compiled([t.numpy() for t in x])[0])
"""
result = subprocess.run(
    [sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True, check=False
)
print(result.stdout.strip())
print("exit status", result.returncode, "(-11: SIGSEGV)")
assert result.returncode < 0, "it does not crash"
