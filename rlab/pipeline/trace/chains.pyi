from pipeline.trace.chains import *
