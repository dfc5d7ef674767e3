from traces.check.delivery import *
