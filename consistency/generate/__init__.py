"""Cases: random bits, what numbers they become, in which layouts, and who chooses; also cases from
other sources (``calls``).

Of backends, references and verdicts nothing is known here.
"""
