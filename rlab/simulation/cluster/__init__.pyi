from simulation.cluster import *
