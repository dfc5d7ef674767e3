"""What-if: one group of a trace replayed under other rules, and the costs of each set of rules.

Read `recorded.py` first (what is read from a trace, with `routes.py` for routes), then `rules.py` (what may change),
then `replay.py`, which decides who owns which queue when; `targets.py` and `trace_lookup.py` answer its questions.
`costs.py` computes the costs. All of these are pure. `job.py` runs many replays in Spark, `plot.py` draws them,
`advice.py` ranks them and says which to choose, `page.py` is the page.

Other rooms use these four (the command `rlab whatif`).
"""
