"""The shipped cluster in virtual time, on a simulated network."""
