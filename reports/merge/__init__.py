"""Evidence of several runs → one matrix, statement × model × machine. `python -m reports merge` is its command.

Every input is taken apart into parts (`parts.py`): one run, with what is sound of it and a word on what is not. A
merged folder keeps its parts, each under the digest of its content, and everything else in it follows from their set.
So merging is associative, the order does not matter, and the same evidence given twice counts once.

What happens where two runs speak of one statement on one subject is in `cells.py`, and what is missing in `gaps.py`.
"""
