"""The report of a trace: one HTML page with tables and drawings.

`job.py` writes the tables with Spark, `folder.py` without it; then the page. `data.py` collects the small results,
`page.py` lays them out (purely), `charts.py` draws charts, `picture.py` makes what the scripts of `pictures/` draw,
`compare.py` sets two runs side by side, `style.py` has the style sheet, `words.py` the sentences.
"""
