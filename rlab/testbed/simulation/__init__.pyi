from testbed.simulation import *
