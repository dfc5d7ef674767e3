from broker import *
