from testbed.simulation.kernel import *
