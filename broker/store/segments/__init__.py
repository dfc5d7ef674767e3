"""The log as a row of files, each with an index of its own; only the last one is written.

`index` is the index of a segment in memory, `index_file` the same in a file, `segment` one file of the log; `scan`
rebuilds an index from the records, `sync_job` makes segment and index durable in a thread, and `commit_log` holds the
segments together: begin, append, read, remove. `moving` chooses what is worth copying to the end of the log, and
`remains` reads what is left of a damaged record. Read them in this order. Nothing here knows what a message is, or
which records readers may see: that is decided one floor up. The rest of the broker imports only `LogKey`, `moving` and
`remains`. Imports of the store: `disk`.
"""
