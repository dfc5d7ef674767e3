from model.message import *
