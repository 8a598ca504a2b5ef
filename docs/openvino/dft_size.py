"""OpenVINO's DFT of 1000 elements errs by some hundred times what it does at 1024."""

import numpy as np
import onnx
import openvino
import torch
from onnx import TensorProto, helper, numpy_helper

OPTIONS = {"INFERENCE_PRECISION_HINT": "f32"}


def error(size: int) -> tuple[float, float]:
    """The largest errors of OpenVINO and torch, in parts of the largest result."""
    axis = numpy_helper.from_array(np.array(1, dtype=np.int64), "axis")
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, size, 1])
    found = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, size, 2])
    node = helper.make_node("DFT", ["x", "", "axis"], ["y"])
    graph = helper.make_graph([node], "dft", [given], [found], [axis])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(model)
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model.SerializeToString(), b""), "CPU", OPTIONS)
    x = np.random.default_rng(0).uniform(-1, 1, size).astype(np.float32)
    true = np.fft.fft(x.astype(np.float64))
    pairs = compiled([x.reshape(1, size, 1)])[0][0]
    answers = pairs[:, 0] + 1j * pairs[:, 1], torch.fft.fft(torch.from_numpy(x)).numpy()
    largest = np.abs(true).max()
    ours, torchs = (float(np.abs(answer - true).max() / largest) for answer in answers)
    return ours, torchs


errors = {size: error(size) for size in (100, 128, 1000, 1024)}
for size, (ours, torchs) in errors.items():
    print(f"{size:5} elements: openvino {ours:.1e}, torch {torchs:.1e} of the largest result")
assert errors[1000][0] > 20 * errors[1000][1], "they agree"
