from model.errors import *
