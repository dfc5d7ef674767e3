from client.rebalance import *
