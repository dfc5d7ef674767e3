from pipeline import *
