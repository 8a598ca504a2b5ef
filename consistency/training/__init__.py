"""Models and their training beside float64: is it rounding that grew, and if not, which operator of
which module is the first?

training_task.py       what a factory returns: the model, its inputs, its loss, its optimizer
targets.py             ``module:factory``, ``file.py:factory``, ``examples:NAME``
ulp_perturbation.py    ±½ ulp, with signs from the tape float64_mode.py        the float64 world:
what asks for fewer bits gets float64; replicas, every intermediate moved by ½ ulp runs.py
one world: a copy of the model on one backend, its steps, and the mode that its operators go through
traces.py              what is kept of the reference, and how far another world is from it
op_facts.py            what is known of an operator before it is called: whether it writes, draws,
only moves per_op_check.py        each operator on the inputs that it really got: a quick look at
all of them, the judge where that is not enough fast_check.py          that quick look judging.py
the judge, and what failed so far run_pass.py            one backend taken through all steps
subprocess_run.py      the same in a process of its own child.py               the other end of it
call_markers.py        which call is running there, seen from outside rounding_envelope.py   what
rounding alone would do: distances of the replicas, and the verdict that follows reference.py
the float64 world and its replicas, one after the other comparing.py           compare_models: what
is asked for backend_comparison.py  every backend beside them, and its verdict findings.py
ModelReport and its parts text.py                the report in words curves.py page.py      the
report as pictures, as a page preflight.py           what to rule out before a backend is blamed
probe.py               what one forward pass does besides its result digests.py             are two
models the same to the bit? variants.py            two ways to compute the same, side by side
capture.py             the model's operator calls as a corpus examples/              small models,
each with what it shows
"""
