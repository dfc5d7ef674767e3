from traces import *
