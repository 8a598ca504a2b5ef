"""OpenVINO's DFT of an impulse errs by 10 units of the last place at 256 elements, torch's by 3."""

import numpy as np
import onnx
import openvino
import torch
from onnx import TensorProto, helper, numpy_helper

SIZE = 256
axis = numpy_helper.from_array(np.array(1, dtype=np.int64), "axis")
shapes = {"x": [1, SIZE, 1], "y": [1, SIZE, 2]}
x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items())
graph = helper.make_graph(
    [helper.make_node("DFT", ["x", "", "axis"], ["y"])], "dft", [x], [y], [axis]
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
onnx.checker.check_model(model)
core = openvino.Core()
options = {"INFERENCE_PRECISION_HINT": "f32"}
compiled = core.compile_model(core.read_model(model.SerializeToString(), b""), "CPU", options)
errors = {"torch": 0.0, "openvino": 0.0}
for place in range(SIZE):
    impulse = np.zeros((1, SIZE, 1), dtype=np.float32)
    impulse[0, place] = 1
    true = np.exp(-2j * np.pi * ((np.arange(SIZE) * place) % SIZE) / SIZE)
    found = compiled([impulse])[0]
    answers = {
        "torch": torch.fft.fft(torch.from_numpy(impulse[0, :, 0])).numpy(),
        "openvino": found[0, :, 0] + 1j * found[0, :, 1],
    }
    for name, answer in answers.items():
        errors[name] = max(errors[name], float(np.abs(answer - true).max()) * 2**24)
for name, error in errors.items():
    print(f"{name:10} largest error {error:.2f} units of 2^-24")
assert errors["openvino"] > 2 * errors["torch"], "they agree"
