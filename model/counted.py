"""A number with its noun in the right form, for texts that people read. Pure.

counted(1, "queue")                    "1 queue"
counted(1200, "queue")                 "1,200 queues"
counted(1, "queue", "is", "are")       "1 queue is"
"""

from __future__ import annotations


def plural(n: int, noun: str, verb_of_one: str = "", verb_of_many: str = "") -> str:
    """A number with its noun, and with the verb behind it that fits one or more of them."""
    word, verb = (noun, verb_of_one) if n == 1 else (f"{noun}s", verb_of_many)
    return f"{n:,} {word} {verb}".rstrip()
