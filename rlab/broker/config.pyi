from broker.config import *
