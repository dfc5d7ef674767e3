"""`rlab key`, `rlab certs` and `rlab fuzz`, and the options by which servers get access control and TLS.

key.py        makes a key: the secret for a file of its client, and the hash for the access file of the servers
certs.py      makes the authority of a test, and certificates that it signs
options.py    `--access`, `--insecure` and `--tls-...`, and the refusal to listen on a network without
fuzz.py       `rlab fuzz`
fuzz_run.py   sends a server hostile requests over several connections, and judges what it answers and uses
fuzz_frames.py  makes them, from the schemas of all requests and from a seed
fuzz_rocketmq.py  makes those of RocketMQ's protocol
fuzz_http_run.py  sends an HTTP port hostile requests, and judges what it answers
fuzz_http.py  makes them, for the paths of all HTTP ports

Servers import `options`.
"""
