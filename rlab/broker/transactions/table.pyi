from broker.transactions.table import *
