"""`make attack`: attacks a real broker in several ways, and measures how late its client is answered.

`run.py` has the attacks, each a coroutine that one process runs over and over, and the run that compares the broker
under each of them with the quiet before. Its docstring says what makes it fail.
"""
