"""`rlab demo`: the main job on an embedded cluster, from the first consumer to the verdict.

Where is what: the life of the group in `story.py`, what is known of it in `state.py`, the cluster in `cluster.py`, the
faults in `valves.py`, the live view in `view.py`, table and verdict in `report.py`, the command in `command.py`.
"""
