"""Our client at servers of RocketMQ: the dialect the other way round. Pure.

`edge` is one connection, `calls` and `messages` translate the requests, `dialect` says which is whose. Read them in
this order. Clients import only `dialect`.
"""
