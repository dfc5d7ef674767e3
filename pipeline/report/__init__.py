"""The report of a trace: one HTML page with tables and drawings.

`job.py` writes the tables with Spark, `folder.py` without it; both then write the page. `data.py` collects the small
results, `page.py` lays them out (pure), `charts.py` draws charts, `picture.py` makes the document that the scripts of
`pictures/` draw, `windows.py` computes figures by window, `compare.py` compares two runs, `html.py` has the
document and its tables, `style.py` the style sheet, `words.py` the sentences.
"""
