"""RocketMQ's own protocol: its stock clients join the same groups over the same ports. Pure.

Requests are translated at the edge of name servers and brokers; handlers do not know about it. Read `frame` (bytes and
frames), `message` (messages, properties, ids), `edge` (one connection), then the translators of requests: `routes`,
`sending`, `pulling`, `popping`, `joining`, `transactions`, and for operators `admin`; `fields` reads values that
clients write in several ways. Servers import only `dialects` and `edge`.

The room `grpc` has the protocol of RocketMQ 5's clients. The room `outward` is the other direction: our client at
servers of RocketMQ.
"""
