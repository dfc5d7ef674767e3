"""The disk as the store sees it: every file operation, the claim of a directory, the errors and the options.

`files` is the one place that calls the system, so that a test can replace it with a disk that fails; `directory` checks
and locks a data directory; `reserve` keeps room for when the disk is full; `errors` has what can go wrong;
`options` has the sizes and limits; `read_only` is a file layer that changes nothing; `watch` finds a disk that hangs.
The other rooms of the store import all of it; the rest of the broker imports only errors, options and `watch`, and
`rlab broker verify` also `read_only`. It imports nothing of the store.
"""
