from pipeline.report.job import *
