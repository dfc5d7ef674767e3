"""Our client at servers of RocketMQ: the dialect in the other direction. Pure.

`edge` is one connection, `routes`, `members`, `queues`, `messages`, `pops`, `transactions` and `admin` translate the
requests, `answers` reads the answers, `dialect` has the translator of each request. Read `edge`, then `queues`. Clients
import only `dialect`.
"""
