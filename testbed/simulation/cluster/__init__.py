"""A simulated cluster: the real name servers, brokers, producers and consumers on the simulated kernel.

`cluster.py` starts them and is what scenarios use. `servers.py` and `clients.py` wrap one process each, which can be
stopped, crashed or hung. `stock.py` is a consumer of RocketMQ 5, and `stock_link.py` its connections. `convergence.py`
compares the owners of queues with the targets. `scenes.py` shows short runs event by event, for pages of the
documentation.
"""
