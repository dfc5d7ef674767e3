"""RocketMQ's own protocol: its stock clients join the same groups, over the same ports. Pure.

A translation at the edge of name servers and brokers, in which no handler has a part. Read `frame` (bytes and frames),
`message` (messages, properties, ids), `edge` (one connection), then what translates the requests: `routes`, `sending`,
`pulling`, `popping`, `joining`, `transactions`, and for operators `admin`; `fields` reads what clients write in several
ways. Servers import only `dialects` and `edge`.

The room `outward` is the other direction: our client at servers of RocketMQ.
"""
