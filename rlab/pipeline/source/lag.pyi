from pipeline.source.lag import *
