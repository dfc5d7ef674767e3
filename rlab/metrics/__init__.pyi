from metrics import *
