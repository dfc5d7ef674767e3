from pipeline.source.progress import *
