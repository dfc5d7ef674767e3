"""`rlab key` and `rlab certs`, and the options by which servers get access control and TLS.

Servers import `options.py`: `--access`, `--insecure` and `--tls-...`, and the refusal to listen on a network without
them. `key.py` makes a key of a client and the hash for the access file; `certs.py` makes certificates for a test.
"""
