"""The room `remoting/wire`."""
