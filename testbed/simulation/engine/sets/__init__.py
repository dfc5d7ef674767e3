"""Replica sets in programmes: the steps that are done to them, and the observation of their promises.

`draw.py` draws what happens to replica sets, `acts.py` does it, and `watch.py` observes the sets for
`testbed/simulation/checks/replicas.py`.
"""
