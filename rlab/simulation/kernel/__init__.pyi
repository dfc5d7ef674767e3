from simulation.kernel import *
