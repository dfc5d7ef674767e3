from pipeline.trace import *
