from model.message_queue import *
