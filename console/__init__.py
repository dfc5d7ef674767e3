"""The console: a web page that shows the rebalances of a group live and in retrospect.

A watcher follows the trace of a cluster and, while pages are open, polls its brokers. It publishes its results to
channels, from which every page reads at its own pace and resumes after a break. The pages are plain modules and styles
in `static/`; they share the pictures of `pictures/` with the report. The console is read-only unless changes are
allowed.

    channel.py    the last updates of one subject, with ids with which a page resumes
    matrix.py     the rows of a group, with the reason if the owner of a queue is not its target
    guard.py      the rules by which a request is answered: the names of this host, the token and origin of changes
    error_page.py  the page that a person gets where a program gets an error as JSON
    watcher.py    follows the trace, polls the brokers, publishes changes
    overview.py   the cluster, its topics and its groups as documents
    lookup.py     messages and dead letters as documents
    changes.py    the changes that a page may make: publish, send again, scale
    testbed.py    the protocol through which the owner of a test cluster offers its processes
    server.py     the aiohttp shell: routes, pages, streams

Read `watcher.py`, then `channel.py`; `static/app.js` is the browser's side.
"""
