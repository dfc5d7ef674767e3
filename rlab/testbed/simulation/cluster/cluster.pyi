from testbed.simulation.cluster.cluster import *
