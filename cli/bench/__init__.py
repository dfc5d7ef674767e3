"""`rlab bench`: what the cluster does per second, and how long a group takes to converge, on this machine.

Figures of another machine say little, so the speed of messages is measured against a bare echo in the same run
(`cli/bench/kit/echo.py`), round by round in turns.
"""
