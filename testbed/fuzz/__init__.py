"""`rlab fuzz`: hostile requests to a server, made from a seed.

frames.py    makes hostile frames, from the schemas of all requests
grpc.py      makes hostile calls and frames of RocketMQ's gRPC protocol
http.py      makes hostile HTTP requests, for the paths of all HTTP ports
http_run.py  sends hostile requests to an HTTP port, and judges its answers
rocketmq.py  makes hostile frames of RocketMQ's protocol
run.py       sends hostile requests to a server over several connections, and judges its answers and its usage

Read `run.py` first.
"""
