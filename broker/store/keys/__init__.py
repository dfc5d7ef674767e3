"""Search in the log by message key or message id, which costs a send nothing. RocketMQ: IndexService.

`file` is the table of one segment, in memory and in a file; `search` walks the segments, the newest first, in steps for
a worker thread, and makes the tables that are missing. `broker/messages/query.py` decides what a key is, and is the
only importer. Imports of the store: `segments` and `disk`.
"""
