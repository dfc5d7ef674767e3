from pipeline.source import *
