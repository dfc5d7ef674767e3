from model.record import *
