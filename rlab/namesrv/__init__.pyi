from namesrv import *
