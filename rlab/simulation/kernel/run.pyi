from simulation.kernel.run import *
