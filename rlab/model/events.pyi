from model.events import *
