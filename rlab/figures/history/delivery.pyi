from figures.history.delivery import *
