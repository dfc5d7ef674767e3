"""`rlab key` and `rlab certs`, and the options by which servers get access control and TLS.

key.py        makes a key: the secret for a file of its client, and the hash for the access file of the servers
certs.py      makes the authority of a test, and certificates that it signs
options.py    `--access`, `--insecure` and `--tls-...`, and the refusal to listen on a network without

Servers import `options`.
"""
