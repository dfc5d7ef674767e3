"""What-if: one group of a trace replayed under other rules, and the costs of each set of rules.

Read `recorded.py` first (the input from a trace, with `routes.py` for routes), then `rules.py` (the rules that may
change), then `replay.py`, which computes the owners of queues over time with `targets.py` and `trace_lookup.py`.
`costs.py` computes the costs. All of these are pure. `job.py` runs many replays in Spark, `alone.py` does the same in
this process, `plot.py` draws them, `advice.py` ranks them and recommends one, `page.py` makes the page.

The command `rlab whatif` uses the last five.
"""
