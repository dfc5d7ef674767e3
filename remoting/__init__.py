"""The wire: frames, connections, the asyncio server and client, and the table of all requests. RocketMQ: remoting.

Sans-IO: `command` is one frame, `codec` encodes and decodes frames, `session` matches answers to requests,
`request_code` numbers the requests, `wire` has the fields of each, `body` checks the rows of bodies, `overload` decides
which requests a late server serves. Shell: `connection` joins them on one socket, `server` dispatches requests to
handlers, `client` keeps one connection per address. `deadline_driver` is the one timer of a pure core, `tasks` runs
tasks side by side, `address` reads addresses.

Read `command`, `codec`, `session`, `connection`, `server`, in this order. Servers import `server`, `body`, `command`
and `connection` (to answer later), clients import `client`; all import `request_code`.
"""
