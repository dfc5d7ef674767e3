from namesrv.config import *
