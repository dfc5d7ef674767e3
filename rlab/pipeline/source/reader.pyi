from pipeline.source.reader import *
