"""The message store: append-only segments of records that are never re-encoded. RocketMQ: DefaultMessageStore.

`message_store` is the face: append, flush, read, sync, trim. It extends `writer` and asks `reader`; `recovery` opens a
log that a crash left; `ends` is the file that shows a lost end of the log; `syncing` decides what a sync that failed
means. Below are four rooms: `disk` (files, the directory, errors, options), `segments` (the log, its files and their
indexes), `keys` (search by key), `follower` (a replica's copy of the log); above, `upkeep`, which checks and copies a
directory without its broker.

Read `message_store`, `queue_state`, `writer`, `segments/index`, `segments/commit_log`, `recovery`, `ends`, in this
order.

The store knows no wire, no group and no other room of the broker; it is synchronous, and belongs to the event loop.
Other rooms import `MessageStore`, `FollowerLog`, `records` and `read_result`, `LogKey` (`segments/index`), `Epoch`
(`segments/epochs`), and errors and options of `disk`; `broker/messages/query.py` alone imports `keys/search`, and
`broker/retry/delays.py` `segments/moving`.
"""
