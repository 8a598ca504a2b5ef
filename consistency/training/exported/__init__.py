"""Exported models: an ONNX file beside the torch model that it was made from.

The file's outputs are compared with the model's in float64, within the band of rounding. Where one
leaves the band, the first node that is off is named, with the torch call that it came from and
whether the file says something else or the runtime computes it wrong. Nothing here trains.
"""
