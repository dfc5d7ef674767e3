"""Several runs in one report: each figure with its mean and interval over the runs, for instance over seeds.

`folder.py` writes the report of each run (`pipeline/report`) and, beside them, the tables and the page of all runs.
`figures.py` computes the tables, `interval.py` the interval of a mean, `words.py` makes texts of the figures, and
`page.py` lays out the page; these four are pure. Read `interval.py` first.
"""
