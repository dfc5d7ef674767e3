from pipeline.report import *
