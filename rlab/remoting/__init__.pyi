from remoting import *
