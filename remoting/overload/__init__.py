"""Overload: a server that is late sorts its requests, and refuses or forgets some; its clients pause together.

`admission` decides which requests a late server serves next, and `remoting/server.py` measures how late it is and acts.
`retry_budget` decides when a client asks a server again that refused it, and `remoting/client.py` waits.
`frame_budget` decides which large frames a server takes at a time, and `remoting/connection.py` reads them. Nothing
else imports this room; docs/failures.md tells what users see.
"""
