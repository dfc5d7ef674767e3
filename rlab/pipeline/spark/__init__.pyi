from pipeline.spark import *
