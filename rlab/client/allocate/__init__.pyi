from client.allocate import *
