from pipeline.trace.source import *
