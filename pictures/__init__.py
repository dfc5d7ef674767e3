"""Pictures of groups: the owners of queues over time, as a document that the console and the report draw in a browser.

`GroupPicture` computes the document from the events of a trace, with the definitions of `traces/figures/`. It returns
the whole document once and news from then on, in the same form. So a page that follows a group and a file about a
finished one share scripts and styles (`static/`), which `assets` reads.

    group_picture.py   the document of one group, whole and as news
    trace_pictures.py  all groups of a trace; holds events until no earlier events of other nodes can arrive
    assets.py          scripts and styles, as files or bundled into one
    svg.py             marks of charts without scripts, for reports and benchmarks

Read `group_picture.py`, then `static/history.js`, which is the browser's side of it.
"""
