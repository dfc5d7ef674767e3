from remoting.wire.docs import *
