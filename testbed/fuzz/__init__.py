"""`rlab fuzz`: hostile requests to a server, made from a seed.

frames.py    makes them, from the schemas of all requests and from a seed
http.py      makes them, for the paths of all HTTP ports
http_run.py  sends an HTTP port hostile requests, and judges what it answers
rocketmq.py  makes those of RocketMQ's protocol
run.py       sends a server hostile requests over several connections, and judges what it answers and uses

Read `run.py` first.
"""
