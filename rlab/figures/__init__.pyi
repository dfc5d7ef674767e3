from figures import *
