from testbed.simulation.cluster import *
