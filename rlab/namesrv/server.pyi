from namesrv.server import *
