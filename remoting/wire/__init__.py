"""All requests: header fields, rows of bodies, answers; one file per feature, as in the broker's rooms.

`field` has the parts of a schema; `schema` joins the files of the features in one table, by which servers and clients
check headers, and `docs` renders docs/wire-protocol.md from it. `servers` has the requests that belong to no feature:
health, counters, the list of brokers. Other packages import only `pop.ANY_QUEUE`, and an example imports `docs`.
"""
