from broker.transactions import *
