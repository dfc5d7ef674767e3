"""Faults of a simulated cluster.

`full_disk.py` and `power_cut_files.py` replace the broker's file layer by disks that fill up or lose power, `damage.py`
changes a file, and `request_filters.py` loses or delays requests of one code. Faults of the network alone
are in `testbed/simulation/kernel/network.py`.
"""
