"""The console: a web page on which a group's rebalance is seen as it happens, and can be looked back at.

A watcher follows the trace of a cluster and asks its brokers, as far as somebody looks; what it finds goes into
channels, from which every page reads on at its own pace and resumes where it was. The pages are plain modules and
styles in `static/`; the pictures are those of `pictures/`, which the report has as well. It shows, and changes nothing
unless it was told that it may.

    channel.py    the last updates of one subject, with ids from which a page resumes
    matrix.py     the rows of a group, and why a queue has another owner than its target, or none
    guard.py      the rules by which a request is answered: the names of this host, the token and origin of changes
    watcher.py    follows the trace, asks the brokers, publishes what has changed
    overview.py   the cluster, its topics and its groups as documents
    lookup.py     messages and dead letters as documents
    changes.py    the changes that a page may make: publish, send again, scale
    testbed.py    the processes of a test cluster, as their owner offers them
    server.py     the aiohttp shell: routes, pages, streams

Read `watcher.py`, then `channel.py`; `static/app.js` is the other side.
"""
