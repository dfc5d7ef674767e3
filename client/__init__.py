"""The client side of the cluster: producers, consumers, and the rebalance that shares queues out among consumers."""
