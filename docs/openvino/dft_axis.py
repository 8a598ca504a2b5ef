"""OpenVINO's DFT of opset 20 transforms axis 1, whatever the input `axis` says."""

import numpy as np
import onnx
import openvino
from onnx import TensorProto, helper, numpy_helper

SHAPE = [3, 4, 5, 2]
x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
numbers = x[..., 0] + 1j * x[..., 1]
core = openvino.Core()
taken = {}
for axis in (0, 1, 2):
    said = numpy_helper.from_array(np.array(axis, dtype=np.int64), "axis")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in "xy"]
    node = helper.make_node("DFT", ["x", "", "axis"], ["y"])
    graph = helper.make_graph([node], "dft", ends[:1], ends[1:], [said])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(model)
    compiled = core.compile_model(core.read_model(model.SerializeToString(), b""), "CPU")
    pairs = compiled([x])[0]
    found = pairs[..., 0] + 1j * pairs[..., 1]
    taken[axis] = [a for a in range(3) if np.allclose(np.fft.fft(numbers, axis=a), found, atol=0.1)]
    print(f"axis {axis}: openvino transforms axis", *taken[axis])
assert any(found != [axis] for axis, found in taken.items()), "they agree"
