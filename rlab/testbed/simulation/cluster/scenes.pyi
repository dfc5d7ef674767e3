from testbed.simulation.cluster.scenes import *
