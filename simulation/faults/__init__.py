"""Faults of a simulated cluster.

`torture_faults.py` does random faults to servers, consumers, network and disks, and repairs them. `full_disk.py` and
`power_cut_files.py` replace the broker's file layer by disks that fill up or lose power. Faults of the network alone
are in `simulation/kernel/network.py`.
"""
