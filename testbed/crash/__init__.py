"""`rlab crash`: kills real brokers under load again and again, and checks that nothing acknowledged is lost.

Read in this order.

run          one run from the first server to the verdict
schedule     moments of the next SIGKILL, from a seed (pure)
brokers      broker processes: started, killed, started again on the same files and port
ledger       messages that were acknowledged, and messages that were consumed (pure)
load         the messages of the load (`testbed/load`) and their listeners, which write the ledger
audit        compares the ledger with the messages stored at the end (pure)
read_back    reads those messages from the brokers, by plain pulls
simulated    power cuts and damaged files on simulated brokers, in a process of their own
report       the table of the verdict; `cli/testbed/crash.py` has the options and the exit code
"""
