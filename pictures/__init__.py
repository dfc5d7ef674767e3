"""Pictures of groups: who owned which queue when, as a document that the console and the report draw in a browser.

`GroupPicture` decides what there is to draw, from the events of a trace and by the definitions of `traces/figures/`. It
is told as a whole once and as news from then on, in one form, so that a page that follows a group and a file that shows
one that is over have one script and one style (`static/`), which `assets` reads.

    group_picture.py   the document of one group, as a whole and as news
    trace_pictures.py  all groups of a trace; holds events until those of other nodes cannot come before them
    assets.py          scripts and styles, as files or bundled into one
    svg.py             marks of charts that need no script: those of reports and of benchmarks

Read `group_picture.py`, then `static/history.js`, which is its other side.
"""
