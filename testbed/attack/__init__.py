"""`make attack`: attacks a real broker in several ways, and measures the latency of another client.

`run.py` has the attacks, each a coroutine that one process repeats, and the run that compares the broker under each
attack with the same broker without it. Its docstring says what makes it fail.
"""
