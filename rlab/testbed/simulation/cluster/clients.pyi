from testbed.simulation.cluster.clients import *
