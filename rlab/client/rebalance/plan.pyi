from client.rebalance.plan import *
