from remoting.request_code import *
