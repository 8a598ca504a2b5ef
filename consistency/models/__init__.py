"""Models and their training beside float64: is it rounding that grew, and if not, which operator of which module is the first?

subject.py   what a factory returns: the model, its inputs, its loss, its optimizer
targets.py   ``module:factory``, ``file.py:factory``, ``examples:NAME``
signs.py     ±½ ulp, with signs from the tape
wide.py      the float64 world: everything that asks for fewer bits gets float64; replicas with every intermediate moved by ½ ulp
worlds.py    one world: a copy of the model on one backend, its steps, and the mode that its operators go through
traces.py    what is kept of the reference, and how far another world is from it
facts.py     what is known of an operator before it is called: whether it writes, draws, only moves
locally.py   each operator on the inputs that it really got: a quick look at all of them, the judge where that is not enough
quick.py     that quick look
judging.py   the judge, and what failed so far
passes.py    one backend taken through all steps
apart.py child.py marks.py   the same in a process of its own: both ends, and which call is running, seen from outside
bands.py     what rounding alone would do: distances of the replicas, and the verdict that follows
reference.py the float64 world and its replicas, one after the other
comparing.py compare_models: what is asked for
beside.py    every backend beside them, and its verdict
findings.py  ModelReport and its parts
telling.py   the report in words
curves.py page.py   the report as pictures, as a page
mistakes.py  what to rule out before a backend is blamed
probe.py     what one forward pass does besides its result
digests.py   are two models the same to the bit?
ways.py      two ways to compute the same, side by side
capture.py   the model's operator calls as a corpus
examples/    small models, each with what it shows
"""
