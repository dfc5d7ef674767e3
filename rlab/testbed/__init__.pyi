from testbed import *
