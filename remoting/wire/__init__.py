"""All requests: header fields, rows of bodies, answers; one file per feature, as in the broker's rooms.

`field` has the parts of a schema; `messages`, `groups`, `leases`, `topics`, `pop`, `assignment` and `sink` the
requests; `schema` joins them in one table, by which servers and clients check headers, and `docs` renders
docs/wire-protocol.md from it. Other packages import only
`pop.ANY_QUEUE`, and an example `docs`.
"""
