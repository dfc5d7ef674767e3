from pipeline.spark.session import *
