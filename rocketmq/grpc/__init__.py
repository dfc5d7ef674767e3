"""RocketMQ 5's gRPC protocol: its stock clients are served over the same ports. Pure; needs the extra `grpc`.

Calls are translated at the edge of name servers and brokers, as RocketMQ's remoting protocol is beside this room. Read
`proto` (the messages of the protocol), the room `http2` (bytes and calls, and the limits against hostile peers),
`edge` (one connection), `status` (results), `handles` (of messages), then the translators of calls: `routes`,
`joining`, `sending`, `transactions`, `receiving`, `acking`; `dialect` lists them. `signing` is for access control.
Others import only `lazy_dialect`, which imports the rest with the first gRPC client.
"""
