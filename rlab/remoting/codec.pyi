from remoting.codec import *
