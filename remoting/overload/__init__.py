"""Overload: a server that is late sorts its requests, and refuses or forgets some, instead of being late for all.

`admission` decides which requests a late server serves next, and `remoting/server.py` measures how late it is and acts.
Nothing else imports this room; docs/failures.md tells what users see.
"""
