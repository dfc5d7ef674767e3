from metrics.client import *
