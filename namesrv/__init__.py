"""The NameServer: a route table and the server around it."""
