"""Registers: where the rows of replica sets are; each implements `replica/register.py`.

`stored_row` in `model/replica_set.py` decides which rows may be written; a register only stores its result. Read
`memory.py` first.

    memory.py         in this process, with faults, for tests and the simulation
    remote.py         asks the name servers, one of which keeps the register in a file (`namesrv/elections.py`)
    etcd.py           in etcd
    etcd_gateway.py   the requests to etcd, through its JSON gateway
    etcd_place.py     its address, login and TLS
"""
