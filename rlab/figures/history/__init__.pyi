from figures.history import *
