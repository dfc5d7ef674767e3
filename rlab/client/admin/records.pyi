from client.admin.records import *
