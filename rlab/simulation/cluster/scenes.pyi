from simulation.cluster.scenes import *
