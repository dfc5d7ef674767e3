from traces.check import *
