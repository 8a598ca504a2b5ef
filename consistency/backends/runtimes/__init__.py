"""Inference runtimes as backends: a call is translated into their graphs once, and run there.

Everything here is imported in the worker process of such a backend only; a runtime that is not
installed is told as absent. Nothing here judges.
"""

# Variants of such a backend that evaluate the same graph without the runtime: in the graph's own
# dtypes, and with every floating number in float64.
EVALUATED = "the graph in onnx's reference evaluator"
EVALUATED_IN_FLOAT64 = f"{EVALUATED}, in float64"
GRAPH_EVALUATORS = (EVALUATED, EVALUATED_IN_FLOAT64)
UNOPTIMIZED = "graph optimizations off"  # the variant
# How a warning of an evaluator begins that says which part of the graph is wrong.
GRAPH_FAULT = "graph: "
ONE_NODE = f"{GRAPH_FAULT}one node"  # a warning: there are no steps that could lose precision
