from simulation import *
