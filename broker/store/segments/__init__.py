"""The log as a row of files, each with an index of its own; only the last one is written.

`index` is the index of a segment in memory, `index_file` the same in a file, `segment` one file of the log; `scan`
rebuilds an index from the records, `sync_job` makes segment and index durable in a thread, and `commit_log` holds the
segments together: begin, append, read, remove. `moving` chooses the records that are copied to the end of the log, and
`remains` reads the rest of a damaged record; `epochs` has the masterships that wrote the log of a set of replicas. Read
them in this order. This room knows neither messages nor which records readers may see: both are decided one floor up.
The rest of the broker imports only `LogKey`, `moving` and `remains`, and replicas `epochs`. Imports of the store:
`disk`.
"""
