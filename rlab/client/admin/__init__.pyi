from client.admin import *
