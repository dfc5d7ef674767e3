from testbed.simulation.kernel.run import *
