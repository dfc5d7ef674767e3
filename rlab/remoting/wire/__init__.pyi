from remoting.wire import *
