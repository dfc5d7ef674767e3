"""The commands of the testbed: `rlab sim`, `lab`, `example`, `swarm`, `demo`, `bench`, `crash`, `fuzz` and `fault`.

Each file has the options, the printed lines and the exit code of the commands that it is named after. The code that
they run is in the package `testbed`. Each imports it when it is called, so that `rlab --help` stays quick.
"""
