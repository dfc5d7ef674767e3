"""The rlab command line, the only place that starts daemons."""
