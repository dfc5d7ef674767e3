from remoting.command import *
