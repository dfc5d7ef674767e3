from broker.broker import *
