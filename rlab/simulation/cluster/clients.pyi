from simulation.cluster.clients import *
