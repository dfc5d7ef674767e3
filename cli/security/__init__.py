"""`rlab key`, and the options by which servers get access control.

key.py        makes a key: the secret for a file of its client, and the hash for the access file of the servers
options.py    `--access` and `--insecure`, and the refusal to listen on a network without either

Servers import `options`.
"""
