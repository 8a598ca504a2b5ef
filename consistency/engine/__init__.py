"""A run: what is asked, in which order, what becomes of each case, and the events that tell of it.

Screens and pages are not known here; they listen to the events. (The function is
``consistency.run``, so the room is not.)
"""
