from simulation.cluster.cluster import *
