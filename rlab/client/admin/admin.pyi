from client.admin.admin import *
