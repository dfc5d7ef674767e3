from client import *
