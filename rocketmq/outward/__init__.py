"""Our client at servers of RocketMQ: the dialect the other way round. Pure.

`edge` is one connection, `routes`, `members`, `queues`, `messages`, `pops`, `transactions` and `admin` translate the
requests, `answers` reads what comes back, `dialect` says which is whose. Read `edge`, then `queues`. Clients import
only `dialect`.
"""
