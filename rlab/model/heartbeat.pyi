from model.heartbeat import *
