"""A run: its configuration, its plan, the judging of each case, and the events that report it.

Screens and pages are not known here; they listen to the events. The package is not called ``run``
because ``consistency.run`` is a function.
"""
