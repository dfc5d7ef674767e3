from client.options import *
