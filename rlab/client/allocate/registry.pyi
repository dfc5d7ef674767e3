from client.allocate.registry import *
